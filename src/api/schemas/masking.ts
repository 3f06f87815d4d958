import Type from 'typebox';
import { LIMITS } from '../../domain/limits.ts';
import { Identifier, Timestamp } from './fields.ts';

const MaskingRule = Type.Object({
  database_name: Identifier,
  schema_name: Identifier,
  table_name: Identifier,
  column_name: Identifier,
  masking_function: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: LIMITS.masking_function_characters,
      description: 'A call of a function of PostgreSQL Anonymizer, such as anon.fake_email()',
    }),
  ),
  masking_value: Type.Optional(
    Type.String({ maxLength: LIMITS.masking_value_characters, description: 'What stands in every row' }),
  ),
});

export const MaskingRules = Type.Array(MaskingRule, { maxItems: LIMITS.masking_rules_per_branch });
export const MaskingRulesOf = Type.Object({ masking_rules: MaskingRules });

export const AnonymizedStatus = Type.Object({
  project_id: Type.String(),
  branch_id: Type.String(),
  state: Type.String({
    enum: ['created', 'initialized', 'initialization_error', 'anonymizing', 'anonymized', 'error'],
  }),
  status_message: Type.Optional(Type.String()),
  created_at: Timestamp,
  updated_at: Timestamp,
  failed_at: Type.Optional(Timestamp),
  last_run: Type.Optional(
    Type.Object({
      started_at: Type.Optional(Timestamp),
      completed_at: Type.Optional(Timestamp),
      triggered_by: Type.Optional(Type.String()),
      triggered_by_username: Type.Optional(Type.String()),
      masked_columns: Type.Optional(Type.Integer()),
    }),
  ),
});
