import { CoppiceError } from '../domain/errors.ts';
import { findMasking, privateBranch } from '../store/branch-maskings.ts';
import type { BranchView } from '../store/branches.ts';
import type { Store } from '../store/connection.ts';

/** Throws when there is nothing yet that the branch could be used for: its volume is being made, or is yet to be masked. */
export async function requireReady(store: Store, { id, ready_at }: Pick<BranchView, 'id' | 'ready_at'>): Promise<void> {
  if (ready_at) return;
  const masking = await findMasking(store, id);
  const isPrivate = masking !== undefined && masking.state !== 'anonymized';
  throw isPrivate ? privateBranch(masking) : new CoppiceError('branch_not_ready');
}
