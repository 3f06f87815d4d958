import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as backend from '../../src/wire/backend-messages.ts';
import { CancelKeys } from '../../src/wire/cancel-keys.ts';
import * as frontend from '../../src/wire/frontend-messages.ts';
import { message, ProtocolError, takeMessage } from '../../src/wire/message.ts';
import { protocolVersion } from '../../src/wire/startup.ts';

const whole = (raw: Buffer) => {
  const taken = takeMessage(raw, 10_000);
  assert.equal(taken?.bytes, raw.length);
  return taken.value;
};

describe('an error for the client', () => {
  it('carries every field and reads back the same', () => {
    const error = { severity: 'FATAL', code: '28P01', message: 'no', detail: 'session', hint: 'try' };
    assert.deepEqual(backend.parseErrorFields(whole(backend.errorResponse(error)).body), error);
  });

  it('cannot be cut short by a zero in a text', () => {
    const { body } = whole(backend.errorResponse({ severity: 'FATAL', code: '08004', message: 'a\0C00000\0b' }));
    assert.deepEqual(backend.parseErrorFields(body).code, '08004');
  });
});

describe('backend messages', () => {
  it('have the documented bytes', () => {
    const hex = (raw: Buffer) => raw.toString('hex');
    assert.equal(hex(backend.authenticationOk()), '520000000800000000');
    assert.equal(hex(backend.authenticationCleartextPassword()), '520000000800000003');
    assert.equal(hex(backend.authenticationSasl(['A', 'B'])), '520000000d0000000a4100420000');
    assert.equal(hex(backend.authenticationSaslContinue('r')), '52000000090000000b72');
    assert.equal(hex(backend.authenticationSaslFinal('v')), '52000000090000000c76');
    assert.equal(hex(backend.negotiateProtocolVersion(protocolVersion(3, 2), ['x'])), '760000000e00030002000000017800');
  });

  it('carry keys of any length', () => {
    for (const length of [4, 32, 256]) {
      const key = { process_id: -5, secret: Buffer.alloc(length, 9) };
      assert.deepEqual(backend.parseBackendKeyData(whole(backend.backendKeyData(key))), key);
    }
    assert.equal(backend.parseBackendKeyData(whole(message('K', Buffer.alloc(4)))), undefined);
  });
});

describe('answers of a client', () => {
  it('are read as they were built', () => {
    const initial = whole(frontend.saslInitialResponse('SCRAM-SHA-256', 'n,,n=,r=x'));
    assert.deepEqual(frontend.parseSaslInitialResponse(initial), { mechanism: 'SCRAM-SHA-256', data: 'n,,n=,r=x' });
    assert.equal(frontend.passwordBody(whole(frontend.saslResponse('c=x'))).toString(), 'c=x');
    assert.equal(frontend.parsePassword(whole(message('p', Buffer.from('pw\0')))), 'pw');
    const empty = whole(message('p', Buffer.from('X\0\xff\xff\xff\xff', 'latin1')));
    assert.deepEqual(frontend.parseSaslInitialResponse(empty), { mechanism: 'X', data: undefined });
  });

  it('are refused when malformed', () => {
    const password = (body: string) => () => frontend.parsePassword(whole(message('p', Buffer.from(body))));
    assert.throws(password('pw'), { message: 'Malformed password message: missing terminator' });
    assert.throws(password('pw\0x'), ProtocolError);
    assert.throws(() => frontend.parsePassword(whole(frontend.query('pw'))), ProtocolError);
    for (const body of ['X', 'X\0', 'X\0\0\0\0\x05abc', 'X\0\0\0\0\x01abc']) {
      const initial = whole(message('p', Buffer.from(body, 'latin1')));
      assert.throws(() => frontend.parseSaslInitialResponse(initial), ProtocolError, JSON.stringify(body));
    }
  });
});

describe('cancel keys', () => {
  it('find their session by the whole key until released', () => {
    const keys = new CancelKeys<string>(10);
    const issued = keys.issue('session', protocolVersion(3, 0));
    assert.equal(issued.secret.length, 4);
    assert.equal(keys.find(issued), 'session');
    const wrong = Buffer.from(issued.secret);
    wrong[0]! ^= 1;
    assert.equal(keys.find({ process_id: issued.process_id, secret: wrong }), undefined);
    assert.equal(keys.find({ process_id: issued.process_id, secret: Buffer.alloc(32) }), undefined);
    assert.equal(keys.find({ process_id: issued.process_id ^ 1, secret: issued.secret }), undefined);
    issued.release();
    assert.equal(keys.find(issued), undefined);
    assert.equal(keys.size, 0);
  });

  it('are long from protocol 3.2 on', () => {
    assert.equal(new CancelKeys(1).issue('x', protocolVersion(3, 2)).secret.length, 32);
  });

  it('are bounded: the oldest is forgotten', () => {
    const keys = new CancelKeys<number>(3);
    const issued = [0, 1, 2, 3].map((index) => keys.issue(index, protocolVersion(3, 0)));
    assert.equal(keys.size, 3);
    assert.deepEqual(
      issued.map((key) => keys.find(key)),
      [undefined, 1, 2, 3],
    );
  });
});
