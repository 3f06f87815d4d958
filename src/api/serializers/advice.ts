import { LINTS } from '../../domain/lints.ts';
import type { SchemaFinding } from '../../domain/schema.ts';
import type { AdvisorIssue } from '../schemas/advice.ts';

/** A finding as the API shows it, with what is to be said of such findings. */
export function serializeFinding({ lint, schema, table, constraint, columns }: SchemaFinding): AdvisorIssue {
  const { category, ...said } = LINTS[lint];
  const words: Readonly<Record<string, string>> = {
    table: `\`${schema}.${table}\``,
    constraint: `\`${constraint}\``,
    columns: (columns ?? []).join(', '),
  };
  return {
    name: lint,
    ...said,
    categories: [category],
    detail: said.detail.replace(/\{(\w+)\}/g, (_, name: string) => words[name]!),
    metadata: { schema, name: table, type: 'table', constraint, columns: columns && [...columns] },
    cache_key: [lint, schema, table, ...(constraint ? [constraint] : [])].join('_'),
  };
}
