import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { JsonPieces } from '../../src/gateway/http/result-json.ts';
import { runSql } from '../../src/gateway/http/run-sql.ts';
import type { SqlOptions, SqlRequest } from '../../src/gateway/http/sql-request.ts';
import type { ServerLease } from '../../src/gateway/pool/contract.ts';
import { message, takeMessage } from '../../src/wire/message.ts';

const REQUEST = { batch: false, statements: [{ sql: 'SELECT 1', parameters: [], array_mode: false }] } as SqlRequest;

/** Stands for a server that says what no Postgres says. */
function lease(said: Buffer): ServerLease {
  const never = () => Promise.reject(new Error('nobody asks for this'));
  const receive = async (limit_bytes: number) => takeMessage(said, limit_bytes)!.value;
  return { key: undefined, send: () => undefined, receive, cancel: never, release: () => undefined };
}

const run = (said: Buffer) =>
  runSql(lease(said), REQUEST, { raw_text: false } as SqlOptions, {
    ...{ pieces: new JsonPieces(() => undefined), limit_bytes: 100, claims: undefined },
  });

describe('an answer of a server over HTTP', () => {
  it('that cannot be read is its doing, and is not called too large', async () => {
    for (const body of [Buffer.alloc(0), Buffer.from([0, 1]), Buffer.from([0, 1, 65, 0, 0])]) {
      await assert.rejects(run(message('T', body)), { code: '08P01', kind: 'compute' });
    }
  });

  it('that is too large is called so', async () => {
    await assert.rejects(run(message('D', Buffer.alloc(200))), /too large/);
  });
});
