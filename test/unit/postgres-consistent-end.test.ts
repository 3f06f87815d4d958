import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { formatLsn, parseLsn } from '../../src/domain/lsn.ts';
import { consistentEnd } from '../../src/postgres/consistent-end.ts';
import { readControlFile } from '../../src/postgres/control-file.ts';
import type { Session } from '../../src/postgres/session.ts';
import { readRecords } from '../../src/postgres/wal/records.ts';
import { type Cluster, MAJORS, type Nursery, openNursery, withServer } from '../support/postgres.ts';
import { segmentsOf } from '../support/wal-workload.ts';

const PAGE_BYTES = 8192;
const SETTINGS = { autovacuum: 'off', fsync: 'off' };

let nursery: Nursery;
before(async () => {
  nursery = await openNursery();
});
after(() => nursery[Symbol.asyncDispose]());

async function position(session: Session): Promise<bigint> {
  const { rows } = await session.query('SELECT pg_current_wal_insert_lsn()::text AS lsn');
  return parseLsn(rows[0].lsn);
}

/** Writes until the next record would have so many bytes of its page. */
async function leaveRoom(session: Session, room_bytes: number): Promise<void> {
  const write = (bytes: number) =>
    session.query("SELECT pg_logical_emit_message(false, 'p', repeat('x', $1))", [Math.max(0, bytes)]);
  const from = await position(session);
  await write(100);
  const overhead_bytes = Number((await position(session)) - from) - 100;
  for (let tries = 0; tries < 50; tries++) {
    const left = PAGE_BYTES - Number((await position(session)) % BigInt(PAGE_BYTES));
    const missing = left - room_bytes;
    if (missing === 0) return;
    await write(missing > 400 ? missing - 300 : missing > overhead_bytes + 16 ? missing - overhead_bytes - 4 : 100);
  }
}

/** By reading the log on from the checkpoint. */
async function lastEnd({ path }: Cluster): Promise<string> {
  const { checkpointLsn } = await readControlFile(path);
  let end = 0n;
  const log = await segmentsOf(path, parseLsn(checkpointLsn));
  for await (const record of readRecords(log, checkpointLsn, 'FFFFFFFF/0')) end = record.end;
  return formatLsn(end);
}

for (const major of MAJORS) {
  describe(`the consistent end of a stopped server of ${major}`, () => {
    test('is the end of its log, wherever the last checkpoint meets the end of a page', async () => {
      const cluster = await nursery.plant(major);
      for (const room_bytes of [8, 64, 112, 120, 128, 4000]) {
        await withServer(cluster, SETTINGS, async (open) => {
          await using session = await open('postgres');
          await leaveRoom(session, room_bytes);
        });
        assert.equal(await consistentEnd(cluster.path), await lastEnd(cluster), `${room_bytes} bytes of room`);
      }
    });

    test('is refused while it runs', async () => {
      const cluster = await nursery.plant(major);
      await withServer(cluster, SETTINGS, async () => {
        await assert.rejects(consistentEnd(cluster.path), /was not stopped cleanly: "in production"/);
      });
    });
  });
}
