import pg from 'pg';

/** What changed: its noun and id, as announced by the triggers of the first migration. */
export interface Change {
  readonly noun: 'endpoint' | 'branch' | 'operation';
  readonly id: string;
}

export interface ChangeListener {
  /** False while the connection is broken: then nothing that was heard before can be trusted. */
  readonly listening: boolean;
  close(): Promise<void>;
}

const RECONNECT_DELAY_MS = 500;

/**
 * Hears of every committed change. When the connection breaks, `onGap` is called at once, since changes may have been
 * missed; it is opened again until `close`.
 */
export async function listenForChanges(
  connection: pg.ClientConfig,
  handlers: { onChange: (change: Change) => void; onGap: () => void },
): Promise<ChangeListener> {
  let client: pg.Client | undefined;
  let closed = false;
  let timer: NodeJS.Timeout | undefined;

  const open = async () => {
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
      const [noun, id] = (payload ?? '').split(' ') as [Change['noun'], string];
      handlers.onChange({ noun, id });
    });
    await next.connect();
    await next.query('listen coppice');
    client = next;
  };
  const reopen = () => {
    timer = setTimeout(() => open().catch(reopen), RECONNECT_DELAY_MS);
    timer.unref();
  };
  await open();
  return {
    get listening() {
      return client !== undefined;
    },
    close: async () => {
      closed = true;
      clearTimeout(timer);
      await client?.end();
    },
  };
}
