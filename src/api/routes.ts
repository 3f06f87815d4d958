import type { Route } from './route.ts';
import { advisorRoutes } from './routes/advisors.ts';
import { anonymizedBranchRoutes } from './routes/anonymized-branches.ts';
import { apiKeyRoutes } from './routes/api-keys.ts';
import { auditLogRoutes } from './routes/audit-log.ts';
import { backupScheduleRoutes } from './routes/backup-schedules.ts';
import { branchRoutes } from './routes/branches.ts';
import { connectionUriRoutes } from './routes/connection-uri.ts';
import { connectionRoutes } from './routes/connections.ts';
import { consumptionRoutes } from './routes/consumption.ts';
import { databaseRoutes } from './routes/databases.ts';
import { endpointRoutes } from './routes/endpoints.ts';
import { eventRoutes } from './routes/events.ts';
import { invitationRoutes } from './routes/invitations.ts';
import { jwksRoutes } from './routes/jwks.ts';
import { memberRoutes } from './routes/members.ts';
import { operationRoutes } from './routes/operations.ts';
import { organizationApiKeyRoutes } from './routes/organization-api-keys.ts';
import { organizationRoutes } from './routes/organizations.ts';
import { preloadLibraryRoutes } from './routes/preload-libraries.ts';
import { projectPermissionRoutes } from './routes/project-permissions.ts';
import { projectRoutes } from './routes/projects.ts';
import { regionRoutes } from './routes/regions.ts';
import { roleRoutes } from './routes/roles.ts';
import { schemaRoutes } from './routes/schemas.ts';
import { snapshotRoutes } from './routes/snapshots.ts';
import { transferRoutes } from './routes/transfers.ts';
import { unavailableRoutes } from './routes/unavailable.ts';
import { userRoutes } from './routes/users.ts';
import { webhookRoutes } from './routes/webhooks.ts';

/** Everything that is served under /api/v2, noun by noun. */
export const ROUTES: readonly Route[] = [
  ...apiKeyRoutes,
  ...userRoutes,
  ...organizationRoutes,
  ...organizationApiKeyRoutes,
  ...memberRoutes,
  ...invitationRoutes,
  ...auditLogRoutes,
  ...regionRoutes,
  ...projectRoutes,
  ...preloadLibraryRoutes,
  ...projectPermissionRoutes,
  ...transferRoutes,
  ...jwksRoutes,
  ...branchRoutes,
  ...anonymizedBranchRoutes,
  ...snapshotRoutes,
  ...backupScheduleRoutes,
  ...endpointRoutes,
  ...connectionRoutes,
  ...schemaRoutes,
  ...advisorRoutes,
  ...roleRoutes,
  ...databaseRoutes,
  ...connectionUriRoutes,
  ...operationRoutes,
  ...consumptionRoutes,
  ...eventRoutes,
  ...webhookRoutes,
  ...unavailableRoutes,
];
