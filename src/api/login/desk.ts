import type { FastifyBaseLogger, FastifyReply, FastifyRequest } from 'fastify';
import { organizationsOf, type PersonalCaller } from '../../actions/caller.ts';
import type { ActionContext } from '../../actions/context.ts';
import { CoppiceError } from '../../domain/errors.ts';
import type { UserId } from '../../domain/ids.ts';
import type { SingleSignOn } from '../../domain/single-sign-on.ts';
import type { Attribution } from '../../store/attributed.ts';
import { recordLogin } from '../../store/logins.ts';
import { whence } from '../attribution.ts';
import { sessionCaller } from '../authenticate.ts';
import { acting } from './acting.ts';
import { createLoginGuard, type LoginGuard } from './guard.ts';
import { ADDRESS_HEADER, LOGIN_PREFIX, type LoginLibrary, openLibrary } from './library.ts';
import { refusalOf } from './refusals.ts';
import type { LoginRoute } from './table.ts';

interface Asked {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly secure: boolean;
}

/** What of a request the library is shown. */
const SHOWN_HEADERS = ['cookie', 'origin', 'user-agent', 'sec-fetch-site', 'sec-fetch-mode', 'sec-fetch-dest'];

/** Hands requests to the library, loaded when the first one comes, and writes into the audit log what came of them. */
export class LoginDesk {
  readonly guard: LoginGuard = createLoginGuard();
  readonly #context: ActionContext;
  readonly #log: FastifyBaseLogger;
  readonly #sso: SingleSignOn | undefined;
  /** By whether it is for TLS, and for an issuer: one that is slow holds up nobody else. */
  readonly #libraries = new Map<string, Promise<LoginLibrary>>();
  /** Entries that nobody waits for. */
  readonly #writing = new Set<Promise<void>>();

  constructor(context: ActionContext, { log, sso }: { log: FastifyBaseLogger; sso: SingleSignOn | undefined }) {
    this.#context = context;
    this.#log = log;
    this.#sso = sso;
  }

  /** Answers as the library does; what it refuses is thrown as an error of ours. */
  async forward(route: LoginRoute, asked: Asked): Promise<unknown> {
    const { request, reply, secure } = asked;
    const caller = await sessionCaller(this.#context, { cookie: request.headers.cookie, secure });
    if (route.issuer && !this.#sso) throw new CoppiceError('route_not_found');
    const library = await this.#library(secure, route.issuer === true);
    const state = { attribution: attributionOf(route, request, caller), person: caller?.user.id };
    const answer = await acting.run(state, () => library.handler(this.#libraryRequest(route, asked)));
    const text = await answer.text();
    const body: unknown = text === '' ? null : JSON.parse(text);
    const cookies = answer.headers.getSetCookie();
    if (answer.status >= 400) {
      if (route.guess) this.#recordFailure(asked, state.person);
      if (cookies.length > 0) reply.header('set-cookie', cookies);
      throw refusalOf(answer.status, body);
    }
    // Nobody has the session before it is in the log.
    await this.#recordSuccess(route, asked, { caller, cookies });
    if (cookies.length > 0) reply.header('set-cookie', cookies);
    const location = answer.headers.get('location');
    if (answer.status >= 300 && location) return reply.redirect(location, answer.status);
    return reply.code(answer.status).type('application/json; charset=utf-8').send(JSON.stringify(body));
  }

  async close(): Promise<void> {
    await Promise.all(this.#writing);
  }

  #library(secure: boolean, issuer: boolean): Promise<LoginLibrary> {
    const name = `${secure} ${issuer}`;
    let opening = this.#libraries.get(name);
    if (!opening) {
      opening = openLibrary(this.#context, { secure, logger: this.#log, sso: issuer ? this.#sso : undefined });
      this.#libraries.set(name, opening);
      // Whoever comes next tries again.
      opening.catch(() => this.#libraries.delete(name));
    }
    return opening;
  }

  #libraryRequest({ method, path, fixed }: LoginRoute, { request, fields }: Asked): Request {
    const headers = new Headers({ [ADDRESS_HEADER]: request.ip });
    for (const name of SHOWN_HEADERS) {
      const value = request.headers[name];
      if (typeof value === 'string' && (name !== 'origin' || method !== 'GET')) headers.set(name, value);
    }
    const query = /\?.*$/.exec(request.url)?.[0] ?? '';
    const url = new URL(`${LOGIN_PREFIX}${path}${query}`, this.#context.installation.public_url);
    if (method === 'GET') return new Request(url, { headers });
    headers.set('content-type', 'application/json');
    return new Request(url, { method, headers, body: JSON.stringify({ ...fields, ...fixed }) });
  }

  /** Who has logged in, or out. Other changes are written by the store itself. */
  async #recordSuccess(
    route: LoginRoute,
    { request, secure }: Asked,
    { caller, cookies }: { caller: PersonalCaller | undefined; cookies: readonly string[] },
  ): Promise<void> {
    const { store } = this.#context;
    if (caller && route.action && /^user\.(sign_out|end_sessions?)$/.test(route.action)) {
      await recordLogin(store, caller.user, { action: route.action, ...whence(request) });
      return;
    }
    const cookie = cookies.map((one) => one.split(';', 1)[0]).join('; ');
    const person = await sessionCaller(this.#context, { cookie, secure });
    // A change of the password, or of the second factor, renews a session.
    if (!person || person.user.id === caller?.user.id) return;
    const target = { by: route.path.replace(/^\/(sign-in\/|two-factor\/verify-)?/, '') };
    await recordLogin(store, person.user, { action: 'user.sign_in', ...whence(request), target });
  }

  /** Whether somebody has the address must not show in how long the answer takes: nobody waits for the entry. */
  #recordFailure({ request, fields }: Asked, person: UserId | undefined): void {
    const who = person ? { id: person } : typeof fields.email === 'string' ? { email: fields.email } : undefined;
    if (!who) return;
    const writing = recordLogin(this.#context.store, who, { action: 'user.sign_in_failed', ...whence(request) })
      .catch((error) => this.#log.warn({ err: error }, 'a failed login is not in the audit log'))
      .finally(() => this.#writing.delete(writing));
    this.#writing.add(writing);
  }
}

function attributionOf(
  { action }: LoginRoute,
  request: FastifyRequest,
  caller: PersonalCaller | undefined,
): Attribution | undefined {
  if (!action) return undefined;
  return {
    actor_kind: 'session',
    action,
    ...whence(request),
    ...(caller && {
      user_id: caller.user.id,
      user_email: caller.user.email,
      organization_ids: organizationsOf(caller),
    }),
  };
}
