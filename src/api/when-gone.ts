import type { FastifyReply } from 'fastify';

/** Aborted when the client has left, or has its answer. */
export function whenGone(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  if (reply.raw.destroyed) gone.abort();
  else reply.raw.once('close', () => gone.abort());
  return gone.signal;
}
