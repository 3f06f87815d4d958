import assert from 'node:assert/strict';
import { test } from 'node:test';
import { customerNetwork } from '../../../src/domain/customer-network.ts';

test('an address of IPv4 stands for itself, one of IPv6 for its network of 64 bits, however it is written', () => {
  assert.equal(customerNetwork('192.0.2.7'), '192.0.2.7');
  for (const address of ['2001:db8:1:2::7', '2001:0db8:0001:0002:a:b:c:d', '2001:DB8:1:2:ffff::']) {
    assert.equal(customerNetwork(address), '2001:db8:1:2');
  }
  assert.equal(customerNetwork('::1'), '0:0:0:0');
  assert.notEqual(customerNetwork('2001:db8:1:3::7'), '2001:db8:1:2');
});
