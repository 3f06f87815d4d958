import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isLocalDomain, outboundAddressProblem, outboundUrlProblem } from '../../../src/domain/outbound-url.ts';

describe("the place of an issuer's keys", () => {
  it('is an https URL of any public or private server', () => {
    for (const url of [
      'https://issuer.example.com/.well-known/jwks.json?v=1',
      'https://10.1.2.3:8443/keys',
      'https://[2001:db8::1]/keys',
    ]) {
      assert.equal(outboundUrlProblem(url, false), undefined, url);
    }
  });

  it('is nothing else', () => {
    for (const url of [
      ...['', 'keys', 'ftp://issuer.example.com/', 'file:///etc/passwd', 'http://issuer.example.com/'],
      ...['https://a:b@issuer.example.com/', 'https://issuer.example.com/#keys', `https://a/${'x'.repeat(2048)}`],
      ...['https://127.0.0.1/', 'https://[::1]/', 'http://localhost/', 'https://169.254.169.254/', 'https://0/'],
      ...['https://2852039166/', 'https://0xa9fea9fe/', 'https://[::ffff:169.254.169.254]/', 'https://[fe80::1]/'],
      ...['https://[fd00:ec2::254]/', 'https://[::]/', 'https://[64:ff9b::a9fe:a9fe]/'],
    ]) {
      assert.notEqual(outboundUrlProblem(url, false), undefined, url);
    }
  });

  it('may be on this machine, without TLS too, where the domain is', () => {
    assert.equal(isLocalDomain('localhost') && isLocalDomain('db.localhost'), true);
    assert.equal(isLocalDomain('example.com') || isLocalDomain('localhost.example.com'), false);
    for (const url of ['http://localhost:8080/', 'http://127.0.0.1/', 'http://[::1]/', 'https://127.0.0.1/']) {
      assert.equal(outboundUrlProblem(url, true), undefined, url);
    }
    for (const url of ['http://10.1.2.3/', 'http://issuer.example.com/', 'https://169.254.169.254/']) {
      assert.notEqual(outboundUrlProblem(url, true), undefined, url);
    }
  });

  it('is judged by the address that its name leads to', () => {
    for (const address of ['203.0.113.7', '192.168.1.1', '2001:db8::1', 'fd12::1']) {
      assert.equal(outboundAddressProblem(address, false), undefined, address);
    }
    for (const address of ['169.254.0.1', '0.0.0.0', '::ffff:169.254.169.254', '224.0.0.1', 'fe80::1%eth0', '::']) {
      assert.notEqual(outboundAddressProblem(address, true), undefined, address);
    }
    assert.notEqual(outboundAddressProblem('127.0.0.2', false), undefined);
    assert.equal(outboundAddressProblem('127.0.0.2', true), undefined);
  });
});
