import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { newRecord } from '../../src/gateway/connection-record.ts';
import { Transfers } from '../../src/gateway/transfers.ts';

const ENDPOINT = 'ep-some-endpoint-12345678';

describe('what passes a gateway', () => {
  const make = () => {
    let begun = 0;
    const transfers = new Transfers(() => {
      begun += 1;
    });
    const enter = (peer = '198.51.100.7:4000') => {
      const record = newRecord(peer, 'tcp');
      transfers.entered(record, ENDPOINT);
      return record;
    };
    return { transfers, enter, begun: () => begun };
  };

  it('is taken once, of connections that are open and of such as have ended', () => {
    const { transfers, enter } = make();
    const [one, other] = [enter(), enter()];
    Object.assign(one, { bytes_in: 10, bytes_out: 100 });
    Object.assign(other, { bytes_in: 1, bytes_out: 2 });
    transfers.ended(other);
    const first = [{ endpoint_id: ENDPOINT, received_bytes: 11, sent_bytes: 102, private_bytes: 0 }];
    assert.deepEqual(transfers.take(), first);
    assert.deepEqual(transfers.take(), []);
    one.bytes_out = 150;
    transfers.ended(one);
    transfers.ended(one);
    assert.deepEqual(transfers.take(), [
      { endpoint_id: ENDPOINT, received_bytes: 0, sent_bytes: 50, private_bytes: 0 },
    ]);
  });

  it('to private networks is told apart', () => {
    const { transfers, enter } = make();
    for (const peer of ['10.1.2.3:4000', '[::1]:4000', '[2001:db8::1]:4000']) enter(peer).bytes_out = 5;
    assert.deepEqual(transfers.take(), [
      { endpoint_id: ENDPOINT, received_bytes: 0, sent_bytes: 15, private_bytes: 10 },
    ]);
  });

  it('is asked for by nobody while nobody is there', () => {
    const { transfers, enter, begun } = make();
    assert.deepEqual([transfers.pending, begun()], [false, 0]);
    const record = enter();
    enter();
    assert.deepEqual([transfers.pending, begun()], [true, 1]);
    record.bytes_in = 1;
    transfers.ended(record);
    assert.equal(transfers.pending, true);
    transfers.take();
    assert.equal(transfers.pending, true, 'one is there still');
  });

  it('of somebody who has not logged in is nobody’s', () => {
    const { transfers } = make();
    const record = newRecord(undefined, 'tcp');
    record.bytes_in = 1000;
    transfers.ended(record);
    assert.deepEqual(transfers.take(), []);
  });
});
