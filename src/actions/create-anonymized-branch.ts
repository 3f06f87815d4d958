import { CoppiceError } from '../domain/errors.ts';
import type { MaskingRule } from '../domain/masking/masking-rule.ts';
import type { AccessibleProject } from './access.ts';
import type { Caller } from './caller.ts';
import type { ActionContext } from './context.ts';
import { type BranchRequest, type CreatedBranch, createBranch } from './create-branch.ts';
import { requireGoodRules } from './masked-branch.ts';

/** Fields as in the API. */
export interface AnonymizedBranchRequest {
  readonly branch_create?: Pick<BranchRequest, 'branch' | 'endpoints' | 'annotation_value'>;
  readonly masking_rules?: readonly MaskingRule[];
  /** False: it waits for `startAnonymization`. */
  readonly start_anonymization?: boolean;
  readonly annotation_value?: BranchRequest['annotation_value'];
}

/** How clients tell that a branch is anonymized. */
const ANNOTATION = { anonymized: 'true' } as const;

/** Makes a branch that nobody can use before its data is masked. Its endpoints start when it is. */
export async function createAnonymizedBranch(
  context: ActionContext,
  caller: Caller,
  project: AccessibleProject,
  request: AnonymizedBranchRequest,
): Promise<CreatedBranch> {
  const { branch_create = {}, masking_rules: rules = [], start_anonymization = false } = request;
  requireGoodRules(rules);
  if (branch_create.branch?.archived || (branch_create.branch?.init_source ?? 'parent-data') !== 'parent-data') {
    throw new CoppiceError('not_available', { feature: 'an anonymized branch that is archived or without data' });
  }
  const annotation_value = { ...branch_create.annotation_value, ...request.annotation_value, ...ANNOTATION };
  return createBranch(
    context,
    caller,
    project,
    { ...branch_create, annotation_value },
    { rules, start: start_anonymization },
  );
}
