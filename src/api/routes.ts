import type { Route } from './route.ts';
import { apiKeyRoutes } from './routes/api-keys.ts';
import { operationRoutes } from './routes/operations.ts';
import { organizationRoutes } from './routes/organizations.ts';
import { regionRoutes } from './routes/regions.ts';
import { userRoutes } from './routes/users.ts';

/** Everything that is served under /api/v2, noun by noun. */
export const ROUTES: readonly Route[] = [
  ...apiKeyRoutes,
  ...userRoutes,
  ...organizationRoutes,
  ...regionRoutes,
  ...operationRoutes,
];
