import type { BranchId } from '../domain/ids.ts';
import type { MaskingRule } from '../domain/masking/masking-rule.ts';
import { privateBranch, updateMaskingRules } from '../store/branch-maskings.ts';
import { lockLiveProject } from '../store/projects.ts';
import type { AccessibleProject } from './access.ts';
import type { ActionContext } from './context.ts';
import { findMaskedBranch, requireGoodRules } from './masked-branch.ts';

/** Replaces the rules of an anonymized branch. They hold from the next masking on; under way there must be none. */
export async function setMaskingRules(
  context: ActionContext,
  project: AccessibleProject,
  id: BranchId,
  rules: readonly MaskingRule[],
): Promise<readonly MaskingRule[]> {
  requireGoodRules(rules);
  return context.store.transaction().execute(async (trx) => {
    await lockLiveProject(trx, project.id);
    const { masking } = await findMaskedBranch(trx, project, id);
    if (masking.state === 'anonymizing') throw privateBranch(masking);
    await updateMaskingRules(trx, id, rules);
    return rules;
  });
}
