import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { LIMITS } from '../domain/limits.ts';
import type { Settings } from '../domain/settings.ts';
import type { CancelRequest } from '../gateway/contract.ts';
import type { Log } from '../watch/log-fields.ts';
import { CANCEL_SLOTS, cancelSlot } from '../wire/cancel-keys.ts';
import {
  type CrewAnswers,
  type CrewChannel,
  type CrewMessage,
  type CrewPipe,
  type CrewQuestions,
  openCrewChannel,
} from './crew-channel.ts';
import { StartError } from './start-error.ts';

/** What a worker is started with. */
export interface WorkerOrder {
  readonly type: 'order';
  readonly settings: Settings;
  /** Tells it from the other processes of the gateway; the main process is 0. */
  readonly slot: number;
  /** How many processes divide an endpoint's pool among them. */
  readonly processes: number;
}

/** The processes that serve the Postgres port. */
export interface GatewayCrew {
  /** Passes a cancel request on to the worker that issued its key. */
  cancel(request: CancelRequest): Promise<void>;
  /** Asks every worker; those that do not answer are left out. */
  askAll<Kind extends keyof CrewQuestions>(
    kind: Kind,
    asked: CrewQuestions[Kind]['asked'],
  ): Promise<CrewQuestions[Kind]['answer'][]>;
  /** Lets transactions end, then ends all. */
  stop(): Promise<void>;
}

type CancelOwn = (request: CancelRequest) => Promise<void>;

/** Workers look at nobody but themselves. */
const nobodyAsks = (): Promise<never> => Promise.reject(new Error('the main process answers this to nobody'));

interface Member {
  readonly worker: Worker;
  readonly channel: CrewChannel;
  readonly started_at: number;
  /** It serves, or it will not. Rejects with its reason. */
  readonly ready: Promise<void>;
  /** It lets nobody in any more, and another takes its place. */
  leaving: boolean;
}

const PROGRAM = fileURLToPath(new URL('../../bin/gateway-worker.ts', import.meta.url));
/** One that lives for less is not replaced at once. */
const SHORT_LIFE_MS = 10_000;
const PAUSE_MAX_MS = 30_000;
/** What a worker has beyond its clients' transactions to stop in order. */
const STOP_EXTRA_MS = 5_000;

/**
 * Starts the workers, and replaces those that end. Throws StartError when one does not come up at first.
 *
 * @param cancel cancels what a key of the main process stands for
 */
export async function startGatewayCrew(
  settings: Settings,
  { cancel, logger }: { cancel: CancelOwn; logger: Log },
): Promise<GatewayCrew> {
  const crew = new Crew(settings, cancel, logger);
  try {
    await crew.start();
  } catch (error) {
    await crew.stop();
    throw error;
  }
  return crew;
}

class Crew implements GatewayCrew {
  readonly #settings: Settings;
  readonly #answers: CrewAnswers;
  readonly #logger: Log;
  readonly #members = new Map<number, Member>();
  readonly #stopping = new AbortController();
  /** Short lives in a row. */
  #failures = 0;

  constructor(settings: Settings, cancel: CancelOwn, logger: Log) {
    this.#settings = settings;
    this.#answers = {
      cancel: async (request) => {
        if (cancelSlot(request.key) === 0) await cancel(request);
        else await this.cancel(request);
        return undefined;
      },
      connections: nobodyAsks,
      metrics: nobodyAsks,
    };
    this.#logger = logger;
  }

  async start(): Promise<void> {
    cluster.setupPrimary({ exec: PROGRAM, args: [], serialization: 'advanced' });
    const begun = Array.from({ length: this.#settings.gateway_workers }, () => this.#fork());
    // All of them, so that none is left behind by the failure of another.
    const ended = await Promise.allSettled(begun.map(({ ready }) => ready));
    const failed = ended.find((result) => result.status === 'rejected');
    if (failed) throw new StartError(`a gateway worker could not start: ${failed.reason.message}`);
  }

  async cancel(request: CancelRequest): Promise<void> {
    await this.#members.get(cancelSlot(request.key))?.channel.ask('cancel', request);
  }

  async askAll<Kind extends keyof CrewQuestions>(
    kind: Kind,
    asked: CrewQuestions[Kind]['asked'],
  ): Promise<CrewQuestions[Kind]['answer'][]> {
    const answers = await Promise.all(Array.from(this.#members.values(), ({ channel }) => channel.ask(kind, asked)));
    return answers.filter((answer) => answer !== undefined);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(Array.from(this.#members.values(), stopMember));
  }

  #fork(): Member {
    const slot = this.#freeSlot();
    const worker = cluster.fork();
    // What is sent to one that has just ended comes back as an error of the worker, who is heard of otherwise.
    worker.on('error', () => undefined);
    const { questions_max, timeout_ms } = CHANNEL_BOUNDS;
    const channel = openCrewChannel(worker as CrewPipe, this.#answers, { questions_max, timeout_ms });
    const member: Member = { worker, channel, started_at: Date.now(), ready: untilReady(worker), leaving: false };
    const subject = `process ${worker.process.pid}`;
    member.ready.then(
      () => this.#logger.info({ subject }, 'a gateway worker serves'),
      (error) => this.#logger.error({ subject, reason: error.message }, 'a gateway worker could not start'),
    );
    this.#members.set(slot, member);
    worker.on('message', ({ type }: CrewMessage) => {
      if (type === 'leaving') this.#replace(member);
    });
    worker.once('exit', (code, signal) => {
      this.#members.delete(slot);
      if (this.#stopping.signal.aborted || member.leaving) return;
      const reason = signal ?? `exit code ${code}`;
      this.#logger.error(
        { subject: `process ${worker.process.pid}`, reason },
        'a gateway worker ended and is replaced',
      );
      this.#replace(member);
    });
    const processes = this.#settings.gateway_workers + 1;
    const settings: Settings = { ...this.#settings, roles: ['gateway'], gateway_workers: 1 };
    const order: WorkerOrder = { type: 'order', settings, slot, processes };
    worker.send(order);
    return member;
  }

  /** Puts another in the place of one that has ended, or lets nobody in any more; later where none lives for long. */
  #replace(member: Member): void {
    if (this.#stopping.signal.aborted || member.leaving) return;
    member.leaving = true;
    this.#failures = Date.now() - member.started_at < SHORT_LIFE_MS ? this.#failures + 1 : 0;
    void this.#forkAfter(this.#failures === 0 ? 0 : Math.min(PAUSE_MAX_MS, 100 * 2 ** this.#failures));
  }

  /** Until there is one: a machine that has no room for another process now may have it later. */
  async #forkAfter(pause_ms: number): Promise<void> {
    const { signal } = this.#stopping;
    for (let wait_ms = pause_ms; !signal.aborted; wait_ms = PAUSE_MAX_MS) {
      await delay(wait_ms, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return;
      try {
        this.#fork();
        return;
      } catch (error) {
        this.#logger.error({ err: error }, 'no process could be started for a gateway worker; it is tried again');
      }
    }
  }

  #freeSlot(): number {
    for (let slot = 1; slot < CANCEL_SLOTS; slot += 1) if (!this.#members.has(slot)) return slot;
    throw new Error(`more than ${CANCEL_SLOTS - 1} gateway workers are running or leaving`);
  }
}

const CHANNEL_BOUNDS = {
  questions_max: LIMITS.gateway_questions,
  // A cancel request takes so long at most where it is carried out.
  timeout_ms: 2 * LIMITS.cancel_timeout_ms,
};

async function untilReady(worker: Worker): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  worker.once('exit', (code, signal) => reject(new Error(`it ended (${signal ?? code})`)));
  worker.on('message', (message: CrewMessage) => {
    if (message.type === 'ready') resolve();
    if (message.type === 'failed') reject(new Error(message.reason));
  });
  await promise;
}

async function stopMember({ worker, channel }: Member): Promise<void> {
  if (worker.isDead()) return;
  const ended = once(worker, 'exit');
  channel.tell({ type: 'stop' });
  const timer = setTimeout(() => worker.process.kill('SIGKILL'), LIMITS.drain_timeout_ms + STOP_EXTRA_MS);
  await ended;
  clearTimeout(timer);
}
