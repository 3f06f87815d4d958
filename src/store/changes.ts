import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';

/** What changed: its noun and id, as announced by the triggers of the migrations. */
export interface Change {
  readonly noun:
    | 'endpoint'
    | 'branch'
    | 'access'
    | 'operation'
    | 'snapshot'
    | 'schedule'
    | 'backup'
    | 'export'
    | 'event'
    | 'delivery';
  readonly id: string;
}

export interface ChangeListener {
  /** False while the connection is broken: then nothing that was heard before can be trusted. */
  readonly listening: boolean;
  /** Resolves when everything that was committed before was heard; at once while nothing is, and after a second anyway. */
  caughtUp(): Promise<void>;
  close(): Promise<void>;
}

const RECONNECT_DELAY_MS = 500;
const CATCH_UP_MAX_MS = 1_000;
/** What we say to ourselves. The server tells it, and everything committed before, ahead of the statement's end. */
const BARRIER = 'barrier';

/**
 * Hears of every committed change. When the connection breaks, `onGap` is called at once, since changes may have been
 * missed; it is opened again until `close`, and `onAgain` is called then, for those who could not be told meanwhile.
 */
export async function listenForChanges(
  connection: pg.ClientConfig,
  handlers: { onChange: (change: Change) => void; onGap: () => void; onAgain: () => void },
): Promise<ChangeListener> {
  let client: pg.Client | undefined;
  let closed = false;
  let timer: NodeJS.Timeout | undefined;

  const open = async (): Promise<void> => {
    const next = new pg.Client({ ...connection, application_name: 'coppice listen', keepAlive: true });
    const lost = () => {
      if (client !== next) return;
      client = undefined;
      handlers.onGap();
      if (!closed) reopen();
    };
    next.on('error', lost);
    next.on('end', lost);
    next.on('notification', ({ payload }) => {
      if (payload === BARRIER) return;
      const [noun, id] = (payload ?? '').split(' ') as [Change['noun'], string];
      handlers.onChange({ noun, id });
    });
    await next.connect();
    await next.query('listen coppice');
    // It was closed while this was opened: `close` did not know of it.
    if (closed) return next.end();
    client = next;
  };
  const reopen = () => {
    timer = setTimeout(() => open().then(handlers.onAgain, reopen), RECONNECT_DELAY_MS);
    timer.unref();
  };
  await open();
  return {
    get listening() {
      return client !== undefined;
    },
    caughtUp: async () => {
      const told = client?.query(`notify coppice, '${BARRIER}'`).catch(() => undefined);
      if (told) await Promise.race([told, delay(CATCH_UP_MAX_MS, undefined, { ref: false })]);
    },
    close: async () => {
      closed = true;
      clearTimeout(timer);
      await client?.end();
    },
  };
}
