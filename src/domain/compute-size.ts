/**
 * Compute sizes as data. Sources: the interface contract, sections 2.4 and 8, and for the rules that it leaves out
 * the public documentation of the platform whose API we speak.
 */

/** Compute units: 1 CU = 1 vCPU and 4 GiB of RAM. */
export type ComputeUnits = number;

/** An endpoint's range; equal bounds are a fixed size. */
export interface ComputeRange {
  readonly min_cu: ComputeUnits;
  readonly max_cu: ComputeUnits;
}

const GIB = 1024 ** 3;

/** Fixed sizes: 0.25, 0.5, every integer 1..16, every even integer 18..56. */
const FIXED_SIZES_CU: readonly ComputeUnits[] = [
  0.25,
  0.5,
  ...Array.from({ length: 16 }, (_, index) => index + 1),
  ...Array.from({ length: 20 }, (_, index) => 18 + index * 2),
];
export const AUTOSCALING_MAX_CU: ComputeUnits = 16;
const AUTOSCALING_SPAN_MAX_CU: ComputeUnits = 8;
export const DEFAULT_RANGE: ComputeRange = { min_cu: 0.25, max_cu: 0.25 };

/** Why a range is not allowed, as a sentence for the caller; undefined when it is allowed. */
export function rangeProblem({ min_cu, max_cu }: ComputeRange): string | undefined {
  if (!FIXED_SIZES_CU.includes(min_cu)) return `${min_cu} CU is not a compute size`;
  if (!FIXED_SIZES_CU.includes(max_cu)) return `${max_cu} CU is not a compute size`;
  if (max_cu < min_cu) return `the maximum size of ${max_cu} CU is below the minimum of ${min_cu} CU`;
  if (min_cu === max_cu) return undefined;
  if (max_cu > AUTOSCALING_MAX_CU) return `autoscaling ends at ${AUTOSCALING_MAX_CU} CU; larger sizes are fixed`;
  if (max_cu - min_cu > AUTOSCALING_SPAN_MAX_CU) {
    return `an autoscaling range spans at most ${AUTOSCALING_SPAN_MAX_CU} CU`;
  }
  return undefined;
}

export const ramBytes = (size: ComputeUnits): number => size * 4 * GIB;

/** What one connection is reckoned to cost; reproduces the contract's table exactly. */
const BYTES_PER_CONNECTION = 9_531_392;
const MAX_CONNECTIONS = 4000;

/** `max_connections` of a range: reckoned for min(max_cu, 8 x min_cu). 112 at 0.25 CU, 4000 from 9 CU on. */
export function maxConnections({ min_cu, max_cu }: ComputeRange): number {
  const size = Math.min(max_cu, 8 * min_cu);
  return Math.max(100, Math.min(MAX_CONNECTIONS, Math.floor(ramBytes(size) / BYTES_PER_CONNECTION)));
}

/** Of `max_connections`, kept for the platform. */
export const RESERVED_CONNECTIONS = 7;

/** Sessions that customers may have at once. */
export const customerConnections = (range: ComputeRange): number => maxConnections(range) - RESERVED_CONNECTIONS;

/** Of `max_connections`, what the pools of an endpoint may have: nine tenths, so that direct connections find room. */
export const pooledConnections = (range: ComputeRange): number => Math.floor(maxConnections(range) * 0.9);

/** The share of RAM the platform's file cache may use; for us the page cache, told through `effective_cache_size`. */
export const cacheBytes = (size: ComputeUnits): number => ramBytes(size) * 0.75;
