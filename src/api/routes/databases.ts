import Type from 'typebox';
import { findBranchOf } from '../../actions/access.ts';
import { createDatabase } from '../../actions/create-database.ts';
import { deleteDatabase } from '../../actions/delete-database.ts';
import { updateDatabase } from '../../actions/update-database.ts';
import { CoppiceError } from '../../domain/errors.ts';
import { findDatabase, listDatabases } from '../../store/databases.ts';
import type { DatabaseRow, OperationRow } from '../../store/schema.ts';
import { reply, route } from '../route.ts';
import { BranchParams } from '../schemas/branch.ts';
import { Database, DatabaseCreate, DatabaseOperations, DatabaseParams, DatabaseUpdate } from '../schemas/database.ts';
import { serializeDatabase } from '../serializers/database.ts';
import { serializeOperation } from '../serializers/operation.ts';

const answer = (done: { database: DatabaseRow; operations: OperationRow[] }) => ({
  database: serializeDatabase(done.database),
  operations: done.operations.map(serializeOperation),
});

export const databaseRoutes = [
  route({
    method: 'GET',
    path: '/projects/:project_id/branches/:branch_id/databases',
    permission: 'database.read',
    summary: 'Lists the databases of a branch',
    schema: { params: BranchParams, response: { 200: Type.Object({ databases: Type.Array(Database) }) } },
    handle: async ({ context, project, params }) => {
      const branch = await findBranchOf(context.store, project, params.branch_id);
      const rows = await listDatabases(context.store, branch.id);
      return reply(200, { databases: rows.map(serializeDatabase) });
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:project_id/branches/:branch_id/databases',
    permission: 'database.write',
    summary: 'Creates a database',
    schema: { params: BranchParams, body: DatabaseCreate, response: { 201: DatabaseOperations } },
    handle: async ({ context, project, params, body }) =>
      reply(201, answer(await createDatabase(context, project, params.branch_id, body.database))),
  }),
  route({
    method: 'GET',
    path: '/projects/:project_id/branches/:branch_id/databases/:database_name',
    permission: 'database.read',
    summary: 'Shows a database',
    schema: { params: DatabaseParams, response: { 200: Type.Object({ database: Database }) } },
    handle: async ({ context, project, params }) => {
      const branch = await findBranchOf(context.store, project, params.branch_id);
      const database = await findDatabase(context.store, branch.id, params.database_name);
      if (!database) throw new CoppiceError('not_found', { noun: 'database' });
      return reply(200, { database: serializeDatabase(database) });
    },
  }),
  route({
    method: 'PATCH',
    path: '/projects/:project_id/branches/:branch_id/databases/:database_name',
    permission: 'database.write',
    summary: 'Renames a database or gives it another owner',
    schema: { params: DatabaseParams, body: DatabaseUpdate, response: { 200: DatabaseOperations } },
    handle: async ({ context, project, params, body }) => {
      const { branch_id, database_name } = params;
      return reply(200, answer(await updateDatabase(context, project, branch_id, database_name, body.database)));
    },
  }),
  route({
    method: 'DELETE',
    path: '/projects/:project_id/branches/:branch_id/databases/:database_name',
    permission: 'database.write',
    summary: 'Deletes a database',
    schema: { params: DatabaseParams, response: { 200: DatabaseOperations, 204: Type.Null() } },
    handle: async ({ context, project, params }) => {
      const deleted = await deleteDatabase(context, project, params.branch_id, params.database_name);
      return deleted ? reply(200, answer(deleted)) : reply(204, null);
    },
  }),
];
