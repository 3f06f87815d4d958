import type { FastifyRequest } from 'fastify';
import { organizationsOf } from '../actions/caller.ts';
import type { ActionContext } from '../actions/context.ts';
import { type Attribution, attributed } from '../store/attributed.ts';

const USER_AGENT_CHARACTERS_MAX = 200;

/**
 * The context for a request that may change something: what is changed through its store is in the audit log, with who asked
 * and how. `organization_id` is the one that the request is about, if it is about one.
 */
export function attributedContext(
  context: ActionContext,
  request: FastifyRequest,
  about: { readonly action: string; readonly organization_id: string | undefined },
): ActionContext {
  return { ...context, store: attributed(context.store, attributionOf(request, about)) };
}

function attributionOf(
  request: FastifyRequest,
  about: { readonly action: string; readonly organization_id: string | undefined },
): Attribution {
  const caller = request.caller!;
  return {
    ...about,
    actor_kind: caller.key_id === undefined ? 'session' : `${caller.kind}_key`,
    key_id: caller.key_id,
    ...(caller.kind === 'personal' && { user_id: caller.user.id, user_email: caller.user.email }),
    ...whence(request),
    target: request.params as Readonly<Record<string, unknown>>,
    organization_ids: organizationsOf(caller),
  };
}

/** Where a request came from, in the words of the audit log. */
export const whence = (request: FastifyRequest): Pick<Attribution, 'address' | 'user_agent' | 'request_id'> => ({
  address: request.ip,
  user_agent: shortUserAgent(request.headers['user-agent']),
  request_id: request.id,
});

/** Printable characters, not too many: it is whatever the client says. */
const shortUserAgent = (text: string | undefined): string | undefined =>
  text?.replace(/[^\x20-\x7e]/g, '?').slice(0, USER_AGENT_CHARACTERS_MAX);
