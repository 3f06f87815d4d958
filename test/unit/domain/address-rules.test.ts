import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { addressList, isAddressRule, isPrivateAddress, plainAddress } from '../../../src/domain/address-rules.ts';

describe('a list of addresses', () => {
  const cases: [rule: string, on: string[], off: string[]][] = [
    ['203.0.113.7', ['203.0.113.7', '::ffff:203.0.113.7', '::FFFF:cb00:7107'], ['203.0.113.8', '::203.0.113.7']],
    ['203.0.113.77/24', ['203.0.113.0', '203.0.113.255'], ['203.0.114.0', '203.0.112.255']],
    ['10.0.0.250-10.0.1.5', ['10.0.0.250', '10.0.0.255', '10.0.1.5'], ['10.0.0.249', '10.0.1.6']],
    ['0.0.0.0/0', ['1.2.3.4', '::ffff:1.2.3.4'], ['2001:db8::1', '::1']],
    ['2001:db8::/33', ['2001:db8:7fff::1', '2001:0DB8:0::'], ['2001:db8:8000::', '2001:db9::']],
    ['2001:db8::5-2001:db8::ff', ['2001:db8::5', '2001:db8::ff'], ['2001:db8::4', '2001:db8::100']],
    ['::/0', ['::1', '2001:db8::1'], ['1.2.3.4', '::ffff:1.2.3.4']],
    ['::ffff:10.0.0.0/104', ['10.200.0.1'], ['11.0.0.1', '::1']],
    ['fe80::1', ['fe80::1', 'fe80::1%eth0'], ['fe80::2']],
    ['203.0.113.7/32', ['203.0.113.7'], ['203.0.113.6']],
  ];
  for (const [rule, on, off] of cases) {
    it(`understands ${rule}`, () => {
      assert.ok(isAddressRule(rule));
      const list = addressList([rule]);
      for (const address of on) assert.equal(list(address), true, address);
      for (const address of off) assert.equal(list(address), false, address);
    });
  }

  it('takes nothing else for a rule', () => {
    const wrong = ['', ' 10.0.0.1', '10.0.0.1/', '10.0.0.1/33', '10.0.0.1/-1', '10.0.0.1/8/8', '10.0.0', '010.0.0.1'];
    wrong.push('::1/129', '::ffff:10.0.0.0/95', 'fe80::1%eth0', '10.0.0.2-10.0.0.1', '10.0.0.1-', '10.0.0.1-::2');
    wrong.push('10.0.0.1 - 10.0.0.2', '*', 'localhost', '10.0.0.1,10.0.0.2', '10.0.0.1/ 8', '10.0.0.1/1e1');
    for (const text of wrong) assert.equal(isAddressRule(text), false, text);
    assert.equal(addressList(wrong)('10.0.0.1'), false);
  });

  it('holds what any of its rules holds, and nothing that is no address', () => {
    const list = addressList(['10.0.0.1', 'nonsense', '::1']);
    assert.deepEqual(['10.0.0.1', '::1', '10.0.0.2', '', 'nonsense'].map(list), [true, true, false, false, false]);
  });

  it('knows the networks that are nobody else’s', () => {
    for (const address of ['127.9.9.9', '10.1.1.1', '172.31.0.1', '192.168.0.1', '::1', 'fd00::1', '::ffff:10.0.0.1']) {
      assert.equal(isPrivateAddress(address), true, address);
    }
    for (const address of ['172.32.0.1', '192.169.0.1', '8.8.8.8', '2001:db8::1', '::ffff:8.8.8.8']) {
      assert.equal(isPrivateAddress(address), false, address);
    }
  });

  it('shows IPv4 as IPv4', () => {
    assert.equal(plainAddress('::ffff:7f00:1'), '127.0.0.1');
    assert.equal(plainAddress('0:0:0:0:0:ffff:127.0.0.1'), '127.0.0.1');
    assert.equal(plainAddress('2001:0db8::0:1'), '2001:db8::1');
    assert.equal(plainAddress('somewhere'), undefined);
  });
});
