import { type IncomingMessage, request as requestPlain } from 'node:http';
import { request as requestOverTls } from 'node:https';
import type { FetchImplementation } from 'jose';
import { LIMITS } from '../../domain/limits.ts';
import { guardedLookup, outboundUrlProblem } from '../../domain/outbound-url.ts';

/**
 * Fetches a key set from where an issuer has it, as jose asks for one. Whoever named the place is trusted with nothing: it is
 * judged again by the address that its name leads to now, the answer is small, redirects are not followed, and nothing of
 * it is shown to anybody. Throws an Error that is for the log.
 *
 * @param loopback keys may be on this machine
 */
export function fetchKeys(loopback: boolean): FetchImplementation {
  const lookUp = guardedLookup(loopback);
  return async (address, { headers, signal }) => {
    const problem = outboundUrlProblem(address, loopback);
    if (problem) throw new Error(`the place of the keys ${problem}`);
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const request = address.startsWith('https:') ? requestOverTls : requestPlain;
    const sent = request(address, { headers: Object.fromEntries(headers), signal, lookup: lookUp, agent: false });
    sent.on('response', resolve).on('error', reject).end();
    try {
      const response = await promise;
      if (response.statusCode !== 200) throw new Error(`the issuer answered ${response.statusCode}`);
      const body = await boundedBody(response);
      if (!Array.isArray(JSON.parse(body.toString('utf8'))?.keys))
        throw new Error('the issuer answered with no key set');
      return new Response(body);
    } finally {
      sent.destroy();
    }
  };
}

async function boundedBody(body: IncomingMessage): Promise<Buffer<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let total_bytes = 0;
  for await (const part of body) {
    total_bytes += part.length;
    if (total_bytes > LIMITS.token_keys_bytes)
      throw new Error(`the key set has more than ${LIMITS.token_keys_bytes} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts);
}
