import { CoppiceError } from '../domain/errors.ts';
import type { BranchId } from '../domain/ids.ts';
import { findRefusedRule, type MaskingRule, ruleName } from '../domain/masking/masking-rule.ts';
import { findMasking, type MaskingView } from '../store/branch-maskings.ts';
import type { BranchView } from '../store/branches.ts';
import type { Store } from '../store/connection.ts';
import { type AccessibleProject, findBranchOf } from './access.ts';

/** An anonymized branch with its masking. Any other is told that it has none, in the words of the public API. */
export async function findMaskedBranch(
  store: Store,
  project: AccessibleProject,
  id: BranchId,
): Promise<{ branch: BranchView; masking: MaskingView }> {
  const branch = await findBranchOf(store, project, id);
  const masking = await findMasking(store, id);
  if (!masking) throw new CoppiceError('not_enabled', { feature: 'anonymization of this branch' });
  return { branch, masking };
}

/** Throws `masking_rule_refused` for a rule that is wrong whatever the databases hold. */
export function requireGoodRules(rules: readonly MaskingRule[]): void {
  const refused = findRefusedRule(rules);
  if (!refused) return;
  throw new CoppiceError('masking_rule_refused', { rule: ruleName(refused.rule), problem: refused.problem });
}

/** Throws when a branch is to become what another one is, with data that nobody has masked. */
export async function refuseUnmasked(store: Store, id: BranchId): Promise<void> {
  if (await findMasking(store, id)) throw new CoppiceError('branch_stays_anonymized', { id });
}
