import { CoppiceError } from '../domain/errors.ts';

/** Lets readings of one project go one after the other, and so many of all projects at once. */
export interface ReadingTurns {
  /**
   * Runs `read` when its turn comes. Throws `schema_busy` when too many wait already, and the signal's reason when it
   * fires before.
   */
  take<T>(project_id: string, signal: AbortSignal, read: () => Promise<T>): Promise<T>;
}

export function createReadingTurns(limits: { waiting_max: number; readings_max: number }): ReadingTurns {
  const waiting: { project_id: string; go: () => void }[] = [];
  const reading = new Set<string>();

  const next = () => {
    while (reading.size < limits.readings_max) {
      const index = waiting.findIndex(({ project_id }) => !reading.has(project_id));
      if (index < 0) return;
      const [turn] = waiting.splice(index, 1);
      reading.add(turn!.project_id);
      turn!.go();
    }
  };

  const wait = (project_id: string, signal: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      const turn = { project_id, go: () => done(resolve) };
      const onAbort = () => {
        waiting.splice(waiting.indexOf(turn), 1);
        done(() => reject(signal.reason));
      };
      const done = (settle: () => void) => {
        signal.removeEventListener('abort', onAbort);
        settle();
      };
      signal.addEventListener('abort', onAbort, { once: true });
      waiting.push(turn);
      next();
    });

  return {
    take: async (project_id, signal, read) => {
      const ahead = waiting.filter((turn) => turn.project_id === project_id).length;
      if (ahead >= limits.waiting_max) throw new CoppiceError('schema_busy', { limit: limits.waiting_max });
      signal.throwIfAborted();
      await wait(project_id, signal);
      try {
        return await read();
      } finally {
        reading.delete(project_id);
        next();
      }
    },
  };
}
