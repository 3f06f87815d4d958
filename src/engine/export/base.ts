import type { ComputeRef } from '../../drivers/compute/contract.ts';
import type { VolumeRef } from '../../drivers/storage/contract.ts';
import { readControlFile } from '../../postgres/control-file.ts';
import { ensureExportRole } from '../../postgres/export-role.ts';
import { recoveryStart } from '../../postgres/recovery.ts';
import type { ExportBase, TimelineRow } from '../../store/schema.ts';
import { cloneRunning } from '../clone-running.ts';
import type { EngineContext } from '../context.ts';
import { snapshotOwner } from '../history/snapshots.ts';
import { sessions } from '../sessions.ts';

const LABEL_BYTES_MAX = 64 * 1024;

/**
 * Copies a running server's volume as a base backup: with its label, from whose position a server elsewhere replays to the
 * record that ends the backup. The volume is named `id`; what an earlier attempt left of it is made again.
 */
export async function makeExportBase(
  ctx: EngineContext,
  wanted: {
    readonly id: string;
    readonly timeline: TimelineRow & { readonly volume: VolumeRef };
    readonly compute: ComputeRef;
    /** `settings.pg_settings` of the endpoint. */
    readonly pg_settings: Readonly<Record<string, string>>;
    readonly signal: AbortSignal;
  },
): Promise<ExportBase> {
  const { id, timeline, compute, pg_settings, signal } = wanted;
  const pgdata = ctx.storage.path(timeline.volume);
  await ctx.storage.ensureDeleted(id);
  const { has_superuser, server_version } = await readyServer(ctx, compute, signal);
  const started_at = new Date();
  // Only a checkpoint's copy ends with the record that a restore from an archive waits for.
  const clone = { source: timeline, compute, id, owner: snapshotOwner(), signal, forced: true };
  const { volume, point } = await cloneRunning(ctx, clone);
  const path = ctx.storage.path(volume);
  const control = await readControlFile(path);
  const { redo_lsn, pg_timeline, wal_segment_bytes } = await recoveryStart(path);
  return {
    timeline_id: timeline.id,
    volume,
    server_version,
    system_identifier: String(control.systemIdentifier),
    pg_timeline,
    wal_segment_bytes,
    pgdata,
    label: (await ctx.storage.read(volume, 'backup_label', 0, LABEL_BYTES_MAX)).toString(),
    start_lsn: redo_lsn,
    stop_lsn: point.lsn,
    started_at: started_at.toISOString(),
    stopped_at: point.timestamp.toISOString(),
    settings: settingsOf(control, pg_settings),
    has_superuser,
  };
}

async function readyServer(
  ctx: EngineContext,
  compute: ComputeRef,
  signal: AbortSignal,
): Promise<{ has_superuser: boolean; server_version: number }> {
  await using session = await sessions(ctx, compute, signal)('postgres');
  const has_superuser = await ensureExportRole(session);
  const { rows } = await session.query("SELECT current_setting('server_version_num')::int AS server_version");
  return { has_superuser, server_version: rows[0].server_version };
}

/** What the server demands of whoever replays its log, what its answers depend on, and what the customer has set. */
function settingsOf(
  control: Awaited<ReturnType<typeof readControlFile>>,
  pg_settings: Readonly<Record<string, string>>,
): Record<string, string> {
  const own = Object.entries(pg_settings).map(([name, value]) => [name.toLowerCase(), value]);
  return {
    timezone: 'GMT',
    default_text_search_config: 'pg_catalog.english',
    ...Object.fromEntries(own),
    max_connections: String(control.maxConnections),
    max_worker_processes: String(control.maxWorkerProcesses),
    max_wal_senders: String(control.maxWalSenders),
    max_prepared_transactions: String(control.maxPreparedTransactions),
    max_locks_per_transaction: String(control.maxLocksPerTransaction),
    wal_level: control.walLevel,
  };
}
