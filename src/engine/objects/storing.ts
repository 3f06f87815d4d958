import { CoppiceError } from '../../domain/errors.ts';
import type { TimelineId } from '../../domain/ids.ts';
import { ObjectError, type ObjectStore } from '../../drivers/objects/contract.ts';
import type { EngineContext } from '../context.ts';

const turns = new WeakMap<EngineContext, Map<TimelineId, Promise<unknown>>>();

/** Whatever changes what is stored of a timeline does so alone: the clean-up must not meet the next archiving. */
export async function storingAlone<T>(ctx: EngineContext, id: TimelineId, work: () => Promise<T>): Promise<T> {
  const known = turns.get(ctx) ?? new Map<TimelineId, Promise<unknown>>();
  turns.set(ctx, known);
  const turn = (known.get(id) ?? Promise.resolve()).then(work, work);
  const settled = turn.catch(() => undefined);
  known.set(id, settled);
  try {
    return await turn;
  } finally {
    if (known.get(id) === settled) known.delete(id);
  }
}

/** The same for several at once. Nobody else waits for one of them while holding another. */
export const storingAllAlone = <T>(
  ctx: EngineContext,
  ids: readonly TimelineId[],
  work: () => Promise<T>,
): Promise<T> => ids.reduceRight<() => Promise<T>>((inner, id) => () => storingAlone(ctx, id, inner), work)();

/** The object storage that this Coppice was given. Throws where it was given none. */
export function requireObjects({ objects }: EngineContext): ObjectStore {
  if (objects) return objects;
  const reason = 'no object storage is set (COPPICE_OBJECTS)';
  throw new CoppiceError('object_storage_failed', { reason });
}

/** Runs what uses object storage, and tells of its errors in words that a caller may read. */
export async function toldOfObjects<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (!(cause instanceof ObjectError)) throw cause;
    const kind = cause.kind === 'unreachable' ? 'object_storage_unreachable' : 'object_storage_failed';
    throw new CoppiceError(kind, { reason: cause.message }, { cause });
  }
}
