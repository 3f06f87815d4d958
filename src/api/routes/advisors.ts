import Type from 'typebox';
import { listAdvice } from '../../actions/list-advice.ts';
import { reply, route } from '../route.ts';
import { AdviceQuery, AdvisorIssue } from '../schemas/advice.ts';
import { ProjectParams } from '../schemas/fields.ts';
import { serializeFinding } from '../serializers/advice.ts';

export const advisorRoutes = [
  route({
    method: 'GET',
    path: '/projects/:project_id/advisors',
    permission: 'branch.read',
    summary: 'Says what could be better in a database: wakes its compute',
    schema: {
      params: ProjectParams,
      querystring: AdviceQuery,
      response: { 200: Type.Object({ issues: Type.Array(AdvisorIssue) }) },
    },
    handle: async ({ context, project, query }) => {
      const findings = await listAdvice(context, project, query);
      return reply(200, { issues: findings.map(serializeFinding) });
    },
  }),
];
