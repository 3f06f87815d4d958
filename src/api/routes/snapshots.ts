import Type from 'typebox';
import { createSnapshot } from '../../actions/create-snapshot.ts';
import { deleteSnapshot } from '../../actions/delete-snapshot.ts';
import { finalizeRestore } from '../../actions/finalize-restore.ts';
import { restoreSnapshot } from '../../actions/restore-snapshot.ts';
import { updateSnapshot } from '../../actions/update-snapshot.ts';
import { listSnapshots } from '../../store/snapshots.ts';
import { reply, route } from '../route.ts';
import { BranchParams } from '../schemas/branch.ts';
import { ProjectParams } from '../schemas/fields.ts';
import { Operations } from '../schemas/operation.ts';
import {
  FinalizeRestore,
  RestoredSnapshot,
  RestoreQuery,
  Snapshot,
  SnapshotCreate,
  SnapshotCreateQuery,
  SnapshotParams,
  SnapshotRestore,
  SnapshotUpdate,
} from '../schemas/snapshot.ts';
import { serializeBranch } from '../serializers/branch.ts';
import { serializeEndpoint } from '../serializers/endpoint.ts';
import { serializeOperation } from '../serializers/operation.ts';
import { serializeSnapshot } from '../serializers/snapshot.ts';

const OperationList = Type.Object({ operations: Operations });

const keeping = [
  route({
    method: 'POST',
    path: '/projects/:project_id/branches/:branch_id/snapshot',
    permission: 'snapshot.write',
    summary: 'Makes a snapshot of a root branch; what is asked for stands in the query or in the body',
    schema: {
      params: BranchParams,
      querystring: SnapshotCreateQuery,
      body: SnapshotCreate,
      response: { 200: Type.Object({ snapshot: Snapshot, operations: Operations }) },
    },
    handle: async ({ context, caller, project, params, query, body }) => {
      const wanted = { ...query, ...body };
      const { snapshot, operations } = await createSnapshot(context, caller, project, params.branch_id, wanted);
      return reply(200, {
        snapshot: serializeSnapshot(snapshot),
        operations: operations.map(serializeOperation),
      });
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:project_id/snapshots',
    permission: 'snapshot.read',
    summary: 'Lists snapshots, newest first',
    schema: { params: ProjectParams, response: { 200: Type.Object({ snapshots: Type.Array(Snapshot) }) } },
    handle: async ({ context, project }) =>
      reply(200, { snapshots: (await listSnapshots(context.store, project.id)).map(serializeSnapshot) }),
  }),
  route({
    method: 'PATCH',
    path: '/projects/:project_id/snapshots/:snapshot_id',
    permission: 'snapshot.write',
    summary: 'Renames a snapshot, or changes when it expires',
    schema: { params: SnapshotParams, body: SnapshotUpdate, response: { 200: Type.Object({ snapshot: Snapshot }) } },
    handle: async ({ context, project, params, body }) => {
      const snapshot = await updateSnapshot(context, project, params.snapshot_id, body.snapshot);
      return reply(200, { snapshot: serializeSnapshot(snapshot) });
    },
  }),
  route({
    method: 'DELETE',
    path: '/projects/:project_id/snapshots/:snapshot_id',
    permission: 'snapshot.write',
    summary: 'Deletes a snapshot',
    schema: { params: SnapshotParams, response: { 202: OperationList } },
    handle: async ({ context, project, params }) => {
      const operations = await deleteSnapshot(context, project, params.snapshot_id);
      return reply(202, { operations: operations.map(serializeOperation) });
    },
  }),
];

const restoring = [
  route({
    method: 'POST',
    path: '/projects/:project_id/snapshots/:snapshot_id/restore',
    permission: 'snapshot.write',
    summary: 'Makes a branch of a snapshot, which can take the place of the one that it is of',
    schema: {
      params: SnapshotParams,
      querystring: RestoreQuery,
      body: SnapshotRestore,
      response: { 200: RestoredSnapshot },
    },
    handle: async ({ context, caller, project, params, query, body }) => {
      const wanted = { ...query, ...body };
      const { branch, endpoints, operations } = await restoreSnapshot(
        context,
        caller,
        project,
        params.snapshot_id,
        wanted,
      );
      return reply(200, {
        branch: serializeBranch(branch),
        endpoints: endpoints.map((row) => serializeEndpoint(row, context.installation)),
        operations: operations.map(serializeOperation),
      });
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:project_id/branches/:branch_id/finalize_restore',
    permission: 'snapshot.write',
    summary: 'Puts a branch that was restored from a snapshot in the place of its target',
    schema: { params: BranchParams, body: FinalizeRestore, response: { 200: OperationList } },
    handle: async ({ context, project, params, body }) => {
      const operations = await finalizeRestore(context, project, params.branch_id, body?.name);
      return reply(200, { operations: operations.map(serializeOperation) });
    },
  }),
];

export const snapshotRoutes = [...keeping, ...restoring];
