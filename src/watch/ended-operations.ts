import type { Sample } from './sample.ts';

/** Counts operations as they end, by action and status: as many series as the table of kinds allows. */
export class EndedOperations {
  readonly #counts = new Map<string, number>();

  note({ action }: { readonly action: string }, status: string): void {
    const key = `${action} ${status}`;
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1);
  }

  samples(): Sample[] {
    return Array.from(this.#counts, ([key, value]) => {
      const [action, status] = key.split(' ') as [string, string];
      return { name: 'coppice_operations_ended_total', labels: { action, status }, value };
    });
  }
}
