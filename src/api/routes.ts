import type { Route } from './route.ts';
import { operationRoutes } from './routes/operations.ts';

/** Everything that is served under /api/v2, noun by noun. */
export const ROUTES: readonly Route[] = [...operationRoutes];
