import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { copyFile, readdir, rename, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { giveIdentity, parseControlFile, readControlFile } from '../../src/postgres/control-file.ts';
import { crc32c } from '../../src/postgres/crc32c.ts';
import { copyCluster, MAJORS, type Nursery, openNursery, withServer } from '../support/postgres.ts';

let nursery: Nursery;
before(async () => {
  nursery = await openNursery();
});
after(() => nursery[Symbol.asyncDispose]());

test('the checksum is CRC-32C', () => {
  // RFC 3720, B.4.
  assert.equal(crc32c(Buffer.from('123456789')), 0xe306_9283);
  assert.equal(crc32c(Buffer.alloc(32)), 0x8a91_36aa);
});

for (const major of MAJORS) {
  describe(`the control file of ${major}`, () => {
    test('says what the server says', async () => {
      const cluster = await nursery.plant(major);
      const seen = await withServer(cluster, { wal_level: 'logical', max_prepared_transactions: '7' }, async (open) => {
        await using session = await open('postgres');
        await session.query('CHECKPOINT');
        const system = await session.query('SELECT * FROM pg_control_system()');
        const checkpoint = await session.query('SELECT * FROM pg_control_checkpoint()');
        const init = await session.query('SELECT * FROM pg_control_init()');
        return { file: await readControlFile(cluster.path), ...system.rows[0], ...checkpoint.rows[0], ...init.rows[0] };
      });
      assert.equal(String(seen.file.systemIdentifier), seen.system_identifier);
      assert.equal(seen.file.version, seen.pg_control_version);
      assert.equal(seen.file.catalogVersion, seen.catalog_version_no);
      assert.equal(seen.file.checkpointLsn, seen.checkpoint_lsn);
      assert.equal(seen.file.redoLsn, seen.redo_lsn);
      assert.equal(seen.file.timeline, seen.timeline_id);
      assert.equal(seen.file.nextOid, seen.next_oid);
      assert.equal(seen.file.walSegmentBytes, seen.bytes_per_wal_segment);
      assert.equal(seen.file.dataChecksums, seen.data_page_checksum_version === 1);
      assert.equal(seen.file.walLevel, 'logical');
      assert.equal(seen.file.maxPreparedTransactions, 7);
      assert.equal(seen.file.state, 'in production');
      assert.equal(seen.file.clean, false);
      const stopped = await readControlFile(cluster.path);
      assert.equal(stopped.state, 'shut down');
      assert.equal(stopped.clean, true);
    });

    test('an identity of its own: the clone runs under it and refuses WAL of the cluster it came from', async () => {
      const parent = await nursery.plant(major);
      const clone = await copyCluster(parent, nursery.newPath());
      const before = await readControlFile(clone.path);
      const identifier = await giveIdentity(clone.path);
      const after = await readControlFile(clone.path);
      assert.equal(after.systemIdentifier, identifier);
      assert.notEqual(identifier, before.systemIdentifier);
      assert.notDeepEqual(after.mockAuthenticationNonce, before.mockAuthenticationNonce);
      assert.deepEqual(
        { ...after, systemIdentifier: 0n, mockAuthenticationNonce: '' },
        { ...before, systemIdentifier: 0n, mockAuthenticationNonce: '' },
      );
      const told = await withServer(clone, {}, async (open) => {
        await using session = await open('postgres');
        await session.query('CREATE TABLE public.of_the_clone ()');
        return (await session.query('SELECT system_identifier FROM pg_control_system()')).rows[0].system_identifier;
      });
      assert.equal(told, String(identifier));

      const stranger = await copyCluster(parent, nursery.newPath());
      await giveIdentity(stranger.path);
      for (const segment of (await readdir(join(parent.path, 'pg_wal'))).filter((name) =>
        /^[0-9A-F]{24}$/.test(name),
      )) {
        await copyFile(join(parent.path, 'pg_wal', segment), join(stranger.path, 'pg_wal', segment));
      }
      await assert.rejects(
        withServer(stranger, {}, async () => undefined),
        /WAL file is from different database system/,
      );
    });

    test('a clone gets another identity each time, and a second one as well', async () => {
      const clone = await nursery.plant(major);
      const first = await giveIdentity(clone.path);
      assert.notEqual(await giveIdentity(clone.path), first);
      await withServer(clone, {}, async (open) => {
        await using session = await open('postgres');
        await session.query('SELECT 1');
      });
    });

    test('a file that was read while it was being written is not believed', async () => {
      const { path } = await nursery.plant(major);
      const bytes = readFileSync(join(path, 'global/pg_control'));
      for (const offset of [0, 16, 40, 130, 250, 287]) {
        const torn = Buffer.from(bytes);
        torn[offset] = (torn[offset] as number) ^ 1;
        assert.throws(() => parseControlFile(torn), /checksum|version/, `byte ${offset}`);
      }
      writeFileSync(join(path, 'global/pg_control'), bytes.subarray(0, 512));
      await assert.rejects(readControlFile(path), /512 bytes/);
    });
  });
}

test('files of a server that is not known, and links in the place of files, are refused', async () => {
  const { path } = await nursery.plant(17);
  const file = join(path, 'global/pg_control');
  const unknown = Buffer.from(readFileSync(file));
  unknown.writeUInt32LE(900, 8);
  assert.throws(() => parseControlFile(unknown), /version 900/);

  const elsewhere = join(nursery.directory, 'victim');
  await rename(file, elsewhere);
  await symlink(elsewhere, file);
  const before = readFileSync(elsewhere);
  await assert.rejects(giveIdentity(path), { code: 'ELOOP' });
  await assert.rejects(readControlFile(path), { code: 'ELOOP' });
  assert.deepEqual(readFileSync(elsewhere), before);
});

test('a pipe in the place of a file holds nobody up', async () => {
  const { path } = await nursery.plant(17);
  const file = join(path, 'global/pg_control');
  await rename(file, join(nursery.directory, 'aside'));
  execFileSync('mkfifo', [file]);
  await assert.rejects(readControlFile(path), /not a plain file/);
});
