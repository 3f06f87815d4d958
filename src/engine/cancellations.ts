import type { Store } from '../store/connection.ts';
import type { Cancellations } from './run-call.ts';

/** Cancellations that are told of changed operations by `hear`. */
export function createCancellations(store: Store): Cancellations & { hear(operationId: string): void } {
  const running = new Map<string, AbortController>();
  const look = (id: string) => {
    const controller = running.get(id);
    if (!controller) return;
    void store
      .selectFrom('operations')
      .select('status')
      .where('id', '=', id)
      .executeTakeFirst()
      .then((row) => {
        if (row?.status === 'cancelling') controller.abort(new Error('cancelled'));
      })
      // The operation then runs to its end; what deletes its subject comes after it.
      .catch(() => undefined);
  };
  return {
    watch: (id) => {
      const controller = new AbortController();
      running.set(id, controller);
      // It may have been cancelled between its begin and this.
      look(id);
      return { signal: controller.signal, release: () => running.delete(id) };
    },
    hear: look,
  };
}
