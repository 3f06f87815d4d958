import type { EngineContext } from './context.ts';

/** Does the work for each item; one that fails is reported, and holds up none of the others. */
export async function forEach<T extends { readonly id: string }>(
  ctx: EngineContext,
  action: string,
  items: readonly T[],
  work: (item: T) => Promise<void>,
): Promise<void> {
  for (const item of items) {
    try {
      await work(item);
    } catch (error) {
      ctx.logger.error({ action, subject: item.id, err: error }, 'a chore failed for one of its subjects');
    }
  }
}
