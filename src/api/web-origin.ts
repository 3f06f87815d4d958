import type { TLSSocket } from 'node:tls';
import type { FastifyRequest } from 'fastify';
import { CoppiceError } from '../domain/errors.ts';
import type { Shown } from './authenticate.ts';

/**
 * Whether a browser has sent this over TLS: to us, or, where the address that people use begins with https, to a balancer in
 * front of us that passes on the host it was asked for.
 */
export function isSecure({ raw, headers }: FastifyRequest, public_url: string): boolean {
  if ((raw.socket as Partial<TLSSocket>).encrypted) return true;
  const { protocol, host } = new URL(public_url);
  return protocol === 'https:' && headers.host === host;
}

/** What a request shows of who sends it. */
export const shownBy = (request: FastifyRequest, public_url: string): Shown => ({
  authorization: request.headers.authorization,
  cookie: request.headers.cookie,
  secure: isSecure(request, public_url),
});

/**
 * Browsers send cookies with whatever a page makes them ask, and say which page it was. Throws `origin_refused` for any page
 * but those that this very host serves, and for who does not say.
 */
export function requireOwnOrigin(request: FastifyRequest, public_url: string): void {
  const { origin } = request.headers;
  if (origin !== undefined && (origin === ownOrigin(request, public_url) || origin === new URL(public_url).origin))
    return;
  throw new CoppiceError('origin_refused');
}

/** `http://localhost:7432`; undefined where the host that was asked for is none. */
function ownOrigin(request: FastifyRequest, public_url: string): string | undefined {
  const text = `${isSecure(request, public_url) ? 'https' : 'http'}://${request.headers.host}`;
  return URL.canParse(text) ? new URL(text).origin : undefined;
}
