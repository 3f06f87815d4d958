/** Why a pool cannot be made or used: one sentence for the person who runs Coppice, who can act on it. */
export class PoolError extends Error {
  override name = 'PoolError';
}
