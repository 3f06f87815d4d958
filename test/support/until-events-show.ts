import type { TestApi } from './api-server.ts';
import { until } from './until.ts';

/** Nothing that was committed is held back by an older transaction any more, such as one that notes the use of keys. */
export const untilEventsShow = ({ store }: Pick<TestApi, 'store'>): Promise<void> =>
  until(
    async () => {
      const { rows } = await store.pool.query<{ behind: boolean }>(
        'select exists (select from coppice.events where transaction >= pg_snapshot_xmin(pg_current_snapshot())) as behind',
      );
      return rows[0]!.behind === false;
    },
    { what: 'older transactions' },
  );
