/** A small seeded generator (mulberry32), so that a failing random test can be run again from its printed seed. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A fresh seed, or the one given in COPPICE_TEST_SEED. */
export function testSeed(): number {
  const given = process.env.COPPICE_TEST_SEED;
  return given ? Number(given) : Math.floor(Math.random() * 2 ** 32);
}
