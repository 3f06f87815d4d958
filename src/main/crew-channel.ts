import type { EndpointConnections } from '../domain/endpoint-connections.ts';
import type { EndpointId } from '../domain/ids.ts';
import type { CancelRequest } from '../gateway/contract.ts';
import type { MetricFamilies } from '../watch/metrics.ts';

/** What one process of a gateway asks another. */
export interface CrewQuestions {
  /** Cancel what this key stands for. */
  readonly cancel: { readonly asked: CancelRequest; readonly answer: undefined };
  /** Who is connected to an endpoint through it; so many of each list. */
  readonly connections: {
    readonly asked: { readonly id: EndpointId; readonly limit: number };
    readonly answer: EndpointConnections;
  };
  readonly metrics: { readonly asked: undefined; readonly answer: MetricFamilies };
}

export type CrewAnswers = {
  readonly [Kind in keyof CrewQuestions]: (
    asked: CrewQuestions[Kind]['asked'],
  ) => Promise<CrewQuestions[Kind]['answer']>;
};

/** The two ends of the pipe between two processes: a worker of `node:cluster`, or `process` in one. */
export interface CrewPipe {
  send(message: object, done: (error: Error | null) => void): unknown;
  on(event: 'message', listener: (message: CrewMessage) => void): unknown;
}

export type CrewMessage =
  | { readonly type: 'question'; readonly number: number; readonly kind: keyof CrewQuestions; readonly asked: unknown }
  | { readonly type: 'answer'; readonly number: number; readonly answer: unknown }
  | { readonly type: 'ready' | 'leaving' | 'stop' }
  | { readonly type: 'failed'; readonly reason: string };

export interface CrewChannel {
  /** Undefined when there is no answer in time, the other process has ended, or too much has been asked already. */
  ask<Kind extends keyof CrewQuestions>(
    kind: Kind,
    asked: CrewQuestions[Kind]['asked'],
  ): Promise<CrewQuestions[Kind]['answer'] | undefined>;
  /** Says something that has no answer. It may get lost with the other process. */
  tell(message: CrewMessage): void;
}

/** Questions and answers through a pipe, in both directions, so many at once and each for so long at most. */
export function openCrewChannel(
  pipe: CrewPipe,
  answers: CrewAnswers,
  { questions_max, timeout_ms }: { questions_max: number; timeout_ms: number },
): CrewChannel {
  const open = new Map<number, (answer: unknown) => void>();
  let asked_last = 0;
  // Whoever has ended is noticed elsewhere.
  const tell = (message: CrewMessage) => void pipe.send(message, () => undefined);
  pipe.on('message', (message) => {
    if (message.type === 'answer') open.get(message.number)?.(message.answer);
    if (message.type !== 'question') return;
    const { number, kind, asked } = message;
    answers[kind](asked as never).then(
      (answer) => tell({ type: 'answer', number, answer }),
      () => tell({ type: 'answer', number, answer: undefined }),
    );
  });
  return {
    tell,
    ask: async (kind, asked) => {
      if (open.size >= questions_max) return undefined;
      const number = ++asked_last;
      const { promise, resolve } = Promise.withResolvers<unknown>();
      open.set(number, resolve);
      const timer = setTimeout(resolve, timeout_ms);
      pipe.send({ type: 'question', number, kind, asked }, (error) => error && resolve(undefined));
      const answer = await promise;
      clearTimeout(timer);
      open.delete(number);
      return answer as never;
    },
  };
}
