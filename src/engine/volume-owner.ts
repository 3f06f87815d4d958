import type { VolumeOwner } from '../drivers/storage/contract.ts';
import type { EngineContext } from './context.ts';

/** Who owns a project's files and runs its computes; undefined where everything runs as one user. */
export function volumeOwner(
  ctx: Pick<EngineContext, 'compute'>,
  project: { readonly uid: number },
): VolumeOwner | undefined {
  return ctx.compute.capabilities.isolated_users ? { uid: project.uid, gid: project.uid } : undefined;
}
