import { setTimeout as delay } from 'node:timers/promises';
import type { EndpointId } from '../domain/ids.ts';
import { readDatabases } from '../postgres/databases.ts';
import { readRoles } from '../postgres/roles.ts';
import { findServedBranch, learnConfig } from '../store/learned.ts';
import type { EngineContext } from './context.ts';
import { sessions } from './sessions.ts';

/** A server that does not answer for so long is hung. */
const LOOK_TIMEOUT_MS = 10_000;

/** The last look into each endpoint's server that is under way. */
const looks = new WeakMap<EngineContext, Map<EndpointId, Promise<void>>>();

/**
 * Takes over the roles, passwords and databases that customers made or changed in SQL on an endpoint's running server.
 * Looks into one server go one after the other, so that an older one never overwrites what a newer one has seen.
 */
export function learnFromServer(ctx: EngineContext, id: EndpointId): Promise<void> {
  const ofEndpoints = looks.get(ctx) ?? new Map<EndpointId, Promise<void>>();
  looks.set(ctx, ofEndpoints);
  const begin = () => lookInto(ctx, id);
  const look = (ofEndpoints.get(id) ?? Promise.resolve()).then(begin, begin);
  ofEndpoints.set(id, look);
  const forget = () => ofEndpoints.get(id) === look && ofEndpoints.delete(id);
  look.then(forget, forget);
  return look;
}

async function lookInto(ctx: EngineContext, endpoint_id: EndpointId): Promise<void> {
  const served = await findServedBranch(ctx.store, endpoint_id);
  if (!served) return;
  await using session = await sessions(ctx, served.compute, AbortSignal.timeout(LOOK_TIMEOUT_MS))('postgres');
  const seen = { roles: await readRoles(session), databases: await readDatabases(session) };
  await learnConfig(ctx.store, served, seen);
}

/** How often one endpoint's server may be asked because logins failed. */
const LEARN_INTERVAL_MS = 1_000;

/**
 * Learns from a running endpoint's server when somebody could not log in, at most once a second for each endpoint. What
 * it resolves after was always begun after the call: a password that was changed just before is known then.
 */
export function learnOnDemand(ctx: EngineContext): (endpointId: EndpointId) => Promise<void> {
  const begun = new Map<EndpointId, number>();
  const waiting = new Map<EndpointId, Promise<void>>();
  const learn = (id: EndpointId) => {
    waiting.delete(id);
    begun.set(id, Date.now());
    setTimeout(() => begun.delete(id), LEARN_INTERVAL_MS).unref();
    return learnFromServer(ctx, id).catch((error) => {
      ctx.logger.warn({ endpoint_id: id, err: error }, 'roles could not be read from a running compute');
    });
  };
  return (id) => {
    const soon = waiting.get(id);
    if (soon) return soon;
    const last = begun.get(id);
    if (last === undefined) return learn(id);
    const later = delay(last + LEARN_INTERVAL_MS - Date.now()).then(() => learn(id));
    waiting.set(id, later);
    return later;
  };
}
