import type { Static } from 'typebox';
import type { SchemaTable } from '../../domain/schema.ts';
import type { Table } from '../schemas/database-schema.ts';

export function serializeSchemaTable({ schema, name, columns, constraints }: SchemaTable): Static<typeof Table> {
  return {
    schema,
    name,
    columns: [...columns],
    constraints: constraints.map(({ referenced_table, ...constraint }) => ({
      ...constraint,
      columns: [...constraint.columns],
      ...(referenced_table && {
        referenced_table: { ...referenced_table, columns: [...referenced_table.columns] },
      }),
    })),
  };
}
