import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Distribution, DURATION_BOUNDS } from '../../src/watch/distribution.ts';
import { createMetrics } from '../../src/watch/metrics.ts';
import type { Sample } from '../../src/watch/sample.ts';

const waiting = (value: number, pool = 'intent'): Sample => ({
  name: 'coppice_store_waiting',
  labels: { pool },
  value,
});
const waits = (...durations_ms: number[]): Sample => {
  const value = new Distribution();
  for (const duration_ms of durations_ms) value.observe(duration_ms);
  return { name: 'coppice_gateway_server_wait_seconds', labels: { endpoint_id: 'ep-a' }, value };
};
const valuesOf = (text: string, start: string) =>
  text
    .split('\n')
    .filter((line) => line.startsWith(start))
    .map((line) => line.slice(line.lastIndexOf(' ') + 1));

describe('metrics', () => {
  it('show durations in buckets that hold those before them, with their sum and count', async () => {
    const text = await createMetrics([() => [waits(0.5, 1, 1.5, 200, 200_000)]]).text();
    const name = 'coppice_gateway_server_wait_seconds';
    const buckets = valuesOf(text, `${name}_bucket`).map(Number);
    assert.equal(buckets.length, DURATION_BOUNDS.length + 1);
    const upTo = (seconds: number) => buckets[DURATION_BOUNDS.indexOf(seconds)];
    assert.deepEqual([upTo(0.001), upTo(0.0025), upTo(0.1), upTo(0.25), upTo(60), buckets.at(-1)], [2, 3, 3, 4, 4, 5]);
    assert.match(text, /_bucket\{endpoint_id="ep-a",le="\+Inf"\} 5$/m);
    assert.deepEqual(valuesOf(text, `${name}_count`), ['5']);
    assert.equal(Number(valuesOf(text, `${name}_sum`)[0]).toFixed(3), '200.203');
  });

  it('are written in pieces where they are many, as one', async () => {
    const names = Array.from({ length: 120 }, (_, at) => `ep-${at}`);
    const many = (value: number) =>
      names.map(
        (endpoint_id): Sample => ({ name: 'coppice_gateway_sent_bytes_total', labels: { endpoint_id }, value }),
      );
    const metrics = createMetrics([() => many(7)]);
    const text = await metrics.text();
    const lines = names.map((name) => `coppice_gateway_sent_bytes_total{endpoint_id="${name}"} 7`);
    const type = '# TYPE coppice_gateway_sent_bytes_total counter';
    assert.ok(text.includes(`${[type, ...lines].join('\n')}\n`), text);
    assert.equal(text.split('\n').filter((line) => line === type).length, 1);
    const wait = waits(3);
    const waited = () => names.map((endpoint_id) => ({ ...wait, labels: { endpoint_id } }) as Sample);
    const [one, other] = [createMetrics([() => many(7), waited]), createMetrics([() => many(7), waited])];
    const both = await createMetrics([() => many(7), waited], async () => [
      await one.families(),
      await other.families(),
    ]).text();
    for (const name of names) {
      assert.ok(both.includes(`\ncoppice_gateway_sent_bytes_total{endpoint_id="${name}"} 21\n`), name);
      assert.ok(both.includes(`\ncoppice_gateway_server_wait_seconds_count{endpoint_id="${name}"} 3\n`), name);
    }
    assert.equal(both.split('# TYPE coppice_gateway_server_wait_seconds histogram').length, 2);
  });

  it('add up what several processes know', async () => {
    const others = [createMetrics([() => [waiting(2), waits(1)]]), createMetrics([() => [waiting(3, 'observed')]])];
    const all = createMetrics([() => [waiting(5), waits(1, 100)]], async () =>
      Promise.all(others.map((other) => other.families())),
    );
    const text = await all.text();
    assert.match(text, /^coppice_store_waiting\{pool="intent"\} 7$/m);
    assert.match(text, /^coppice_store_waiting\{pool="observed"\} 3$/m);
    assert.match(text, /^coppice_gateway_server_wait_seconds_bucket\{endpoint_id="ep-a",le="0.001"\} 2$/m);
    assert.match(text, /^coppice_gateway_server_wait_seconds_count\{endpoint_id="ep-a"\} 3$/m);
    assert.match(text, /^process_resident_memory_bytes \d+$/m);
  });

  it('are read once for all who ask at the same time, and anew for who asks later', async () => {
    let reads = 0;
    const metrics = createMetrics([
      async () => {
        reads++;
        return [waiting(reads)];
      },
    ]);
    assert.equal(reads, 0);
    const [one, other] = await Promise.all([metrics.text(), metrics.text()]);
    assert.equal(one, other);
    assert.match(await metrics.text(), /^coppice_store_waiting\{pool="intent"\} 2$/m);
  });

  it('are asked for again after a reading that failed', async () => {
    let broken = true;
    const metrics = createMetrics([
      () => {
        if (broken) throw new Error('cannot be read');
        return [waiting(1)];
      },
    ]);
    await assert.rejects(metrics.text(), /cannot be read/);
    broken = false;
    assert.match(await metrics.text(), /^coppice_store_waiting\{pool="intent"\} 1$/m);
  });
});
