import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import type { Readable } from 'node:stream';
import { after, before, describe, it } from 'node:test';
import { EventFeed, type EventFollower } from '../../src/api/event-feed.ts';
import { EventStreams } from '../../src/api/event-streams.ts';
import type { EventPosition } from '../../src/domain/event-position.ts';
import { createChangeWatch } from '../../src/store/change-watch.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';

const TIMES_SLOW = 30;
/** More than a stream holds for a reader that takes nothing. */
const LARGE = 'x'.repeat(100_000);

/** Tells who follows, and when they have caught up. */
class WatchedFeed extends EventFeed {
  readonly followers: { readonly follower: EventFollower; readonly caught_up: Promise<void> }[] = [];

  override follow(follower: EventFollower, after: EventPosition): Promise<void> {
    const caught_up = super.follow(follower, after);
    this.followers.push({ follower, caught_up });
    return caught_up;
  }
}

describe('a stream of events', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api?.close());

  const nobodys: EventPosition = { transaction: 0n, number: 0 };
  const largeEvent = (number: number) => ({
    ...{ transaction: 1n, number, created_at: new Date(), type: 'project.updated', subject_id: 'a-project' },
    ...{ organization_id: null, project_id: null, user_id: null, data: { name: LARGE } },
  });
  const takeAll = (body: Readable) => {
    while (body.read() !== null);
  };

  it('leaves nothing behind each time that its reader is slow', async () => {
    const onError = (error: unknown) => assert.fail(String(error));
    const feed = new WatchedFeed({ store: api.store.store, changes: createChangeWatch(), onError });
    const streams = new EventStreams(feed, onError);
    const view = { scope: { organization_ids: [] }, maySee: () => true };
    const look_up = async () => view;
    const body = streams.open({
      epoch: '00000000',
      after: nobodys,
      begin: 'ready',
      credential: 'key:1',
      view,
      look_up,
    });
    try {
      const { follower, caught_up } = feed.followers[0]!;
      await caught_up;
      const listeners = () => [
        getEventListeners(follower.gone, 'abort').length,
        ...['drain', 'close', 'error'].map((name) => body.listenerCount(name)),
      ];
      const beSlow = async (number: number) => {
        let taken = false;
        const taking = follower.take([largeEvent(number)], { transaction: 1n, number }).then(() => {
          taken = true;
        });
        await new Promise(setImmediate);
        assert.equal(taken, false, 'the stream waits for its reader');
        takeAll(body);
        await taking;
      };
      await beSlow(0);
      takeAll(body);
      const before = listeners();
      for (let count = 1; count <= TIMES_SLOW; count += 1) await beSlow(count);
      assert.deepEqual(listeners(), before);
    } finally {
      streams.close();
      body.destroy();
    }
  });
});
