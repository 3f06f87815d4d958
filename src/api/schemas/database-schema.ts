import Type from 'typebox';

const Constraint = Type.Object({
  type: Type.String({ enum: ['primary_key', 'unique', 'foreign_key'] }),
  name: Type.String(),
  columns: Type.Array(Type.String()),
  referenced_table: Type.Optional(
    Type.Object({ schema: Type.String(), table: Type.String(), columns: Type.Array(Type.String()) }),
  ),
});

export const Table = Type.Object({
  schema: Type.String(),
  name: Type.String(),
  columns: Type.Array(
    Type.Object({ name: Type.String(), type: Type.String(), nullable: Type.Boolean(), generated: Type.Boolean() }),
  ),
  constraints: Type.Array(Constraint),
});

/** One of the two, by the format that was asked for. */
export const DatabaseSchema = Type.Object({
  sql: Type.Optional(Type.String()),
  json: Type.Optional(Type.Object({ tables: Type.Array(Table) })),
});

const Moment = Type.Optional(Type.String({ format: 'date-time' }));
const Position = Type.Optional(Type.String());

export const SchemaQuery = Type.Object({
  db_name: Type.String(),
  lsn: Position,
  timestamp: Moment,
  format: Type.Optional(Type.Enum(['sql', 'json'])),
});
export const SchemaComparisonQuery = Type.Object({
  db_name: Type.String(),
  base_branch_id: Type.Optional(Type.String()),
  lsn: Position,
  timestamp: Moment,
  base_lsn: Position,
  base_timestamp: Moment,
});
