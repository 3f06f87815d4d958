import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  type BarmanBackup,
  barmanBackupId,
  barmanBackupInfo,
  barmanWalKey,
} from '../../src/engine/export/backup-info.ts';

const MIB = 1024 ** 2;

const infoOf = (given: Partial<BarmanBackup> = {}): Map<string, string> => {
  const info = barmanBackupInfo({
    server_name: 'a-project',
    server_version: 170_010,
    system_identifier: '7434561234567890123',
    pg_timeline: 2,
    wal_segment_bytes: MIB,
    pgdata: '/data/volumes/v',
    label: "START WAL LOCATION: 1/2000028 (file 000000020000000100000020)\nLABEL: it's \\ ours\n",
    start_lsn: '1/2000028',
    stop_lsn: '1/2100000',
    started_at: new Date('2026-11-22T00:10:00.123Z'),
    stopped_at: new Date('2026-11-22T00:10:05Z'),
    bytes: 5,
    ...given,
  });
  return new Map(
    info
      .trimEnd()
      .split('\n')
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );
};

describe('backup.info', () => {
  it('names segments as a server with small ones does', () => {
    const info = infoOf();
    assert.equal(info.get('begin_wal'), '000000020000000100000020');
    assert.equal(info.get('begin_offset'), '40');
    assert.equal(info.get('xlog_segment_size'), String(MIB));
  });

  it('ends in the last segment that is needed, even where that is full', () => {
    const info = infoOf();
    assert.equal(info.get('end_wal'), '000000020000000100000020');
    assert.equal(info.get('end_offset'), String(MIB));
    assert.equal(infoOf({ stop_lsn: '1/2100008' }).get('end_wal'), '000000020000000100000021');
  });

  it('holds a label of many lines in one', () => {
    const label = infoOf().get('backup_label')!;
    assert.ok(label.endsWith("LABEL: it\\'s \\\\ ours\\n'"), label);
  });

  it('has times that tell their zone, and an id without any', () => {
    assert.equal(infoOf().get('begin_time'), '2026-11-22 00:10:00.123+00:00');
    assert.equal(barmanBackupId(new Date('2026-11-22T00:10:00.123Z')), '20261122T001000');
  });
});

describe('the place of a file of the log', () => {
  it('is a directory of the first sixteen digits, and none for what tells of promotions', () => {
    assert.equal(barmanWalKey('s', '00000002000000010000002A'), 's/wals/0000000200000001/00000002000000010000002A');
    assert.equal(barmanWalKey('s', '00000002.history'), 's/wals/00000002.history');
  });
});
