import Type from 'typebox';
import { compareSchemas, readSchemaSql, readSchemaTables } from '../../actions/read-schema.ts';
import { reply, route } from '../route.ts';
import { BranchParams } from '../schemas/branch.ts';
import { DatabaseSchema, SchemaComparisonQuery, SchemaQuery } from '../schemas/database-schema.ts';
import { serializeSchemaTable } from '../serializers/schema-table.ts';

export const schemaRoutes = [
  route({
    method: 'GET',
    path: '/projects/:project_id/branches/:branch_id/schema',
    permission: 'branch.read',
    summary: 'Shows the schema of a database, as SQL or as a list of tables',
    schema: { params: BranchParams, querystring: SchemaQuery, response: { 200: DatabaseSchema } },
    handle: async ({ context, project, params: { branch_id }, query: { db_name, format, ...point } }) => {
      if (format === 'json') {
        const tables = await readSchemaTables(context, project, branch_id, db_name, point);
        return reply(200, { json: { tables: tables.map(serializeSchemaTable) } });
      }
      return reply(200, { sql: await readSchemaSql(context, project, branch_id, db_name, point) });
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:project_id/branches/:branch_id/compare_schema',
    permission: 'branch.read',
    summary: "Compares the schema of a database with another branch's, by default the parent's",
    schema: {
      params: BranchParams,
      querystring: SchemaComparisonQuery,
      response: { 200: Type.Object({ diff: Type.String() }) },
    },
    handle: async ({ context, project, params: { branch_id }, query }) => {
      const { db_name: database, base_branch_id, lsn, timestamp, base_lsn, base_timestamp } = query;
      const points = { branch: { lsn, timestamp }, base: { lsn: base_lsn, timestamp: base_timestamp } };
      const diff = await compareSchemas(context, project, { branch_id, base_branch_id, database }, points);
      return reply(200, { diff });
    },
  }),
];
