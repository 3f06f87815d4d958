import { type Lsn, parseLsn } from '../../domain/lsn.ts';
import { walSegmentName } from '../../postgres/wal-segment.ts';

/** What a restore by barman, or by whoever reads its layout, must know of a base. */
export interface BarmanBackup {
  readonly server_name: string;
  /** As the server tells it: 170010. */
  readonly server_version: number;
  readonly system_identifier: string;
  /** Postgres's own, which counts promotions. */
  readonly pg_timeline: number;
  readonly wal_segment_bytes: number;
  /** Where it was. */
  readonly pgdata: string;
  /** The text of `backup_label`. */
  readonly label: string;
  /** Replay starts here, and must come to the stop at least. */
  readonly start_lsn: Lsn;
  readonly stop_lsn: Lsn;
  readonly started_at: Date;
  readonly stopped_at: Date;
  /** Of its archive. */
  readonly bytes: number;
}

/** The id of a backup: a time of the calendar, to the second. */
export const barmanBackupId = (at: Date): string => at.toISOString().slice(0, 19).replaceAll(/[-:]/g, '');

/** Where a segment, or a history file, belongs. */
export function barmanWalKey(server_name: string, file: string): string {
  // The sixteen digits are those of Postgres's own name, however large segments are.
  return file.endsWith('.history') ? `${server_name}/wals/${file}` : `${server_name}/wals/${file.slice(0, 16)}/${file}`;
}

/** The text of `backup.info`, with the fields that every version since 2.12 knows. */
export function barmanBackupInfo(backup: BarmanBackup): string {
  const { pg_timeline, wal_segment_bytes, start_lsn, stop_lsn, pgdata } = backup;
  const begin = parseLsn(start_lsn);
  // One that ends with its segment ends in that one, not at the start of the next, which need not be there.
  const last = parseLsn(stop_lsn) - 1n;
  const size = BigInt(wal_segment_bytes);
  const fields: Record<string, string | number | bigint | undefined> = {
    backup_label: pythonText(backup.label),
    begin_offset: begin % size,
    begin_time: pythonTime(backup.started_at),
    begin_wal: walSegmentName(pg_timeline, begin, wal_segment_bytes),
    begin_xlog: start_lsn,
    compression: undefined,
    config_file: `${pgdata}/postgresql.conf`,
    copy_stats: undefined,
    deduplicated_size: undefined,
    end_offset: (last % size) + 1n,
    end_time: pythonTime(backup.stopped_at),
    end_wal: walSegmentName(pg_timeline, last, wal_segment_bytes),
    end_xlog: stop_lsn,
    error: undefined,
    hba_file: `${pgdata}/pg_hba.conf`,
    ident_file: `${pgdata}/pg_ident.conf`,
    included_files: undefined,
    mode: 'concurrent',
    pgdata,
    server_name: backup.server_name,
    size: backup.bytes,
    status: 'DONE',
    systemid: backup.system_identifier,
    tablespaces: undefined,
    timeline: pg_timeline,
    version: backup.server_version,
    xlog_segment_size: wal_segment_bytes,
  };
  return Object.entries(fields)
    .map(([name, value]) => `${name}=${value ?? 'None'}\n`)
    .join('');
}

/** It is read as a literal of Python; a label is plain ASCII. */
function pythonText(text: string): string {
  const escapes: Record<string, string> = { '\\': '\\\\', "'": "\\'", '\n': '\\n', '\r': '\\r', '\t': '\\t' };
  return `'${text.replaceAll(/[\\'\n\r\t]/g, (character) => escapes[character]!)}'`;
}

const pythonTime = (time: Date): string => time.toISOString().replace('T', ' ').replace('Z', '+00:00');
