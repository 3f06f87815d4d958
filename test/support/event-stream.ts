/** An event as a client of server-sent events sees it. */
export interface StreamedEvent {
  readonly id: string;
  readonly type: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests reach into it.
  readonly data: any;
}

export interface EventStreamReader {
  /** All that came so far. */
  readonly events: readonly StreamedEvent[];
  /** Resolves when the server has ended the stream. */
  readonly ended: Promise<void>;
  /** The first event, of those that came or are to come, that fits. */
  until(fits: (event: StreamedEvent) => boolean): Promise<StreamedEvent>;
  close(): Promise<void>;
}

/** Follows server-sent events as a browser would (WHATWG HTML); resolves when the first has come. */
export async function readEventStream(
  url: string,
  { key, last_event_id }: { readonly key: string; readonly last_event_id?: string },
): Promise<EventStreamReader> {
  const leave = new AbortController();
  const response = await fetch(url, {
    signal: leave.signal,
    headers: {
      authorization: `Bearer ${key}`,
      accept: 'text/event-stream',
      ...(last_event_id && { 'last-event-id': last_event_id }),
    },
  });
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  const events: StreamedEvent[] = [];
  let over = false;
  let news = Promise.withResolvers<void>();
  const ended = (async () => {
    try {
      for await (const frame of frames(response)) {
        const event = parse(frame);
        if (event) events.push(event);
        news.resolve();
        news = Promise.withResolvers();
      }
    } catch {
      // It was broken off, by us or by the server.
    }
    over = true;
    news.resolve();
  })();
  let looked = 0;
  const until = async (fits: (event: StreamedEvent) => boolean): Promise<StreamedEvent> => {
    for (;;) {
      const coming = news.promise;
      while (looked < events.length) {
        const event = events[looked]!;
        looked += 1;
        if (fits(event)) return event;
      }
      if (over) throw new Error(`the stream ended; it brought ${events.map(({ type }) => type).join(', ')}`);
      await coming;
    }
  };
  const close = () => {
    leave.abort();
    return ended;
  };
  while (events.length === 0 && !over) await news.promise;
  return { events, ended, until, close };
}

async function* frames(response: Response): AsyncIterable<string> {
  let rest = '';
  for await (const part of response.body!.pipeThrough(new TextDecoderStream())) {
    const pieces = (rest + part).split('\n\n');
    rest = pieces.pop()!;
    yield* pieces;
  }
}

/** Comments, and places in the log without an event, are nothing. */
function parse(frame: string): StreamedEvent | undefined {
  const fields = new Map(
    frame.split('\n').map((line) => [line.split(': ', 1)[0]!, line.slice(line.indexOf(': ') + 2)]),
  );
  const data = fields.get('data');
  return data === undefined ? undefined : { id: fields.get('id')!, type: fields.get('event')!, data: JSON.parse(data) };
}
