import { findMaskedBranch } from '../../actions/masked-branch.ts';
import { setMaskingRules } from '../../actions/set-masking-rules.ts';
import { startAnonymization } from '../../actions/start-anonymization.ts';
import { reply, route } from '../route.ts';
import { BranchParams } from '../schemas/branch.ts';
import { AnonymizedStatus, MaskingRulesOf } from '../schemas/masking.ts';
import { serializeAnonymizedStatus } from '../serializers/masking.ts';

const path = '/projects/:project_id/branches/:branch_id' as const;

/** What there is of anonymized branches besides branches; any other is told that it is none. */
export const anonymizedBranchRoutes = [
  route({
    method: 'GET',
    path: `${path}/masking_rules`,
    permission: 'branch.read',
    summary: 'Shows by which rules the data of an anonymized branch is masked',
    schema: { params: BranchParams, response: { 200: MaskingRulesOf } },
    handle: async ({ context, project, params }) => {
      const { masking } = await findMaskedBranch(context.store, project, params.branch_id);
      return reply(200, { masking_rules: [...masking.rules] });
    },
  }),
  route({
    method: 'PATCH',
    path: `${path}/masking_rules`,
    permission: 'branch.write',
    summary: 'Replaces all rules of an anonymized branch; they hold from the next masking on',
    schema: { params: BranchParams, body: MaskingRulesOf, response: { 200: MaskingRulesOf } },
    handle: async ({ context, project, params, body }) => {
      const rules = await setMaskingRules(context, project, params.branch_id, body.masking_rules);
      return reply(200, { masking_rules: [...rules] });
    },
  }),
  route({
    method: 'GET',
    path: `${path}/anonymized_status`,
    permission: 'branch.read',
    summary: 'Shows how far an anonymized branch is',
    schema: { params: BranchParams, response: { 200: AnonymizedStatus } },
    handle: async ({ context, project, params }) => {
      const { masking } = await findMaskedBranch(context.store, project, params.branch_id);
      return reply(200, serializeAnonymizedStatus(masking));
    },
  }),
  route({
    method: 'POST',
    path: `${path}/anonymize`,
    permission: 'branch.write',
    summary: 'Masks the data of an anonymized branch: for the first time, after a failure, or anew',
    schema: { params: BranchParams, response: { 200: AnonymizedStatus } },
    handle: async ({ context, caller, project, params }) =>
      reply(200, serializeAnonymizedStatus(await startAnonymization(context, caller, project, params.branch_id))),
  }),
];
