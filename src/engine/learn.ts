import type { EndpointId } from '../domain/ids.ts';
import { readDatabases } from '../postgres/databases.ts';
import { readRoles } from '../postgres/roles.ts';
import type { OpenSession } from '../postgres/session.ts';
import { learnConfig } from '../store/learned.ts';
import { findEndpointFacts } from '../store/observations.ts';
import type { EngineContext } from './context.ts';
import { servesBranch, sessions } from './server.ts';

/** Takes over the roles, passwords and databases that customers made or changed in SQL. */
export async function learnFromServer(ctx: EngineContext, branchId: string, open: OpenSession): Promise<void> {
  await using session = await open('postgres');
  const seen = { roles: await readRoles(session), databases: await readDatabases(session) };
  await learnConfig(ctx.store, branchId, seen);
}

/** How often one endpoint's server may be asked because a login failed. */
const LEARN_INTERVAL_MS = 1_000;
const LEARNT_MAX = 10_000;

/** Learns from a running endpoint's server when somebody could not log in, at most once a second for each endpoint. */
export function learnOnDemand(ctx: EngineContext): (endpointId: EndpointId) => Promise<void> {
  const learnt = new Map<EndpointId, { at: number; done: Promise<void> }>();
  return (id) => {
    const known = learnt.get(id);
    if (known && Date.now() - known.at < LEARN_INTERVAL_MS) return known.done;
    const done = learnEndpoint(ctx, id).catch((error) => {
      ctx.logger.warn({ endpoint_id: id, err: error }, 'roles could not be read from a running compute');
    });
    if (learnt.size >= LEARNT_MAX) learnt.delete(learnt.keys().next().value!);
    learnt.delete(id);
    learnt.set(id, { at: Date.now(), done });
    return done;
  };
}

async function learnEndpoint(ctx: EngineContext, id: EndpointId): Promise<void> {
  const facts = await findEndpointFacts(ctx.store, id);
  if (facts?.compute && facts.observed_state === 'running' && servesBranch(facts)) {
    await learnFromServer(ctx, facts.branch_id, sessions(ctx, facts.compute));
  }
}
