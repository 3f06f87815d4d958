import Type from 'typebox';
import { findBranchOf } from '../../actions/access.ts';
import { setBackupSchedule } from '../../actions/set-backup-schedule.ts';
import { listBackupSchedule } from '../../store/backup-schedules.ts';
import { reply, route } from '../route.ts';
import { BranchParams } from '../schemas/branch.ts';
import { BackupSchedule } from '../schemas/snapshot.ts';
import { serializeBackupSchedule } from '../serializers/snapshot.ts';

const path = '/projects/:project_id/branches/:branch_id/backup_schedule';

export const backupScheduleRoutes = [
  route({
    method: 'GET',
    path,
    permission: 'snapshot.read',
    summary: 'Shows when snapshots of a branch are made',
    schema: { params: BranchParams, response: { 200: BackupSchedule } },
    handle: async ({ context, project, params }) => {
      const branch = await findBranchOf(context.store, project, params.branch_id);
      return reply(200, serializeBackupSchedule(await listBackupSchedule(context.store, branch.id)));
    },
  }),
  route({
    method: 'PUT',
    path,
    permission: 'snapshot.write',
    summary: 'Says when snapshots of a root branch are made, in UTC; an empty schedule turns them off',
    schema: { params: BranchParams, body: BackupSchedule, response: { 200: Type.Object({}) } },
    handle: async ({ context, project, params, body }) => {
      await setBackupSchedule(context, project, params.branch_id, body.schedule);
      return reply(200, {});
    },
  }),
];
