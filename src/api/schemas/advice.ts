import Type, { type Static } from 'typebox';
import { Id } from './fields.ts';

const Category = Type.Enum(['SECURITY', 'PERFORMANCE']);

export const AdviceQuery = Type.Object({
  branch_id: Type.Optional(Id),
  database_name: Type.Optional(Type.String()),
  category: Type.Optional(Category),
  min_severity: Type.Optional(Type.Enum(['INFO', 'WARN', 'ERROR'])),
});

export const AdvisorIssue = Type.Object({
  name: Type.String(),
  title: Type.String(),
  level: Type.String(),
  facing: Type.String(),
  categories: Type.Array(Type.String()),
  description: Type.String(),
  detail: Type.String(),
  remediation: Type.String(),
  metadata: Type.Object({
    schema: Type.String(),
    name: Type.String(),
    type: Type.String(),
    constraint: Type.Optional(Type.String()),
    columns: Type.Optional(Type.Array(Type.String())),
  }),
  cache_key: Type.String(),
});
export type AdvisorIssue = Static<typeof AdvisorIssue>;
