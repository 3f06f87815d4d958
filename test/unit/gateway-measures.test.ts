import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type ConnectionRecord, newRecord } from '../../src/gateway/connection-record.ts';
import { Measures } from '../../src/gateway/measures.ts';

const open = (measures: Measures, id: string): ConnectionRecord => {
  const record = newRecord('127.0.0.1:1', 'tcp');
  record.connected = true;
  measures.entered(record, id);
  return record;
};
const end = (measures: Measures, record: ConnectionRecord) => {
  record.reason = 'client';
  record.bytes_in = 10;
  measures.ended(record);
};
const names = (measures: Measures) => Array.from(measures.endpoints(), ([id]) => id);
const totals = (measures: Measures, id: string) => new Map(measures.endpoints()).get(id);

describe('what is measured of endpoints', () => {
  it('is kept for so many, and of the rest together', () => {
    const measures = new Measures({ measured_endpoints: 2, measured_idle_ms: 60_000 });
    const records = ['ep-a', 'ep-b', 'ep-c', 'ep-d'].map((id) => open(measures, id));
    assert.deepEqual(names(measures), ['ep-a', 'ep-b', 'other']);
    for (const record of records) end(measures, record);
    assert.deepEqual([...totals(measures, 'ep-a')!.ended], [['client', 1]]);
    assert.deepEqual([...totals(measures, 'other')!.ended], [['client', 2]]);
    assert.equal(totals(measures, 'other')!.received_bytes, 20);
  });

  it('makes room when one has had no client for long, and counts a connection where it began', () => {
    const measures = new Measures({ measured_endpoints: 1, measured_idle_ms: 0 });
    const first = open(measures, 'ep-a');
    const second = open(measures, 'ep-b');
    assert.deepEqual(names(measures), ['ep-a', 'other']);
    end(measures, first);
    const third = open(measures, 'ep-b');
    assert.deepEqual(names(measures), ['ep-b', 'other']);
    end(measures, second);
    assert.deepEqual([totals(measures, 'other')!.received_bytes, totals(measures, 'ep-b')!.received_bytes], [10, 0]);
    assert.equal(measures.totalsOf(third), totals(measures, 'ep-b'));
  });

  it('holds refusals by codes of our own alone, and nothing for names that were only said', () => {
    const measures = new Measures({ measured_endpoints: 10, measured_idle_ms: 60_000 });
    for (let at = 0; at < 100; at++) {
      const record = newRecord('127.0.0.1:1', 'tcp');
      Object.assign(record, { endpoint_id: `ep-${at}`, error_kind: 'compute', error_code: `X${1000 + at}` });
      measures.ended(record);
    }
    measures.dropped();
    assert.deepEqual(names(measures), ['other']);
    assert.deepEqual(
      [...totals(measures, 'other')!.refused],
      [
        ['compute other', 100],
        ['ratelimit 53300', 1],
      ],
    );
  });

  it('says nothing of probes and of clients that were gone before they had logged in', () => {
    const measures = new Measures({ measured_endpoints: 10, measured_idle_ms: 60_000 });
    measures.ended(newRecord('127.0.0.1:1', 'tcp'));
    const gone = newRecord('127.0.0.1:1', 'tcp');
    gone.error_kind = 'clientdisconnect';
    measures.ended(gone);
    const { ended, refused } = totals(measures, 'other')!;
    assert.deepEqual([ended.size, refused.size], [0, 0]);
  });
});
