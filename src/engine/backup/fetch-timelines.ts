import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseLsn } from '../../domain/lsn.ts';
import { ObjectError, type ObjectStore } from '../../drivers/objects/contract.ts';
import type { VolumeRef } from '../../drivers/storage/contract.ts';
import { CLONE_OF_STOPPED } from '../../postgres/backup.ts';
import { readControlFile } from '../../postgres/control-file.ts';
import { recoveryStart } from '../../postgres/recovery.ts';
import { walSegmentName } from '../../postgres/wal-segment.ts';
import { quietSpec } from '../compute-spec.ts';
import type { EngineContext } from '../context.ts';
import { firstServerRef } from '../first-start.ts';
import { snapshotOwner } from '../history/snapshots.ts';
import { type Chunks, chunksBelow } from '../objects/chunks.ts';
import { bytesBeside, type FetchBase, fetchPatched } from '../objects/patched-volume.ts';
import { getSealed, sha256Of } from '../objects/sealed.ts';
import { fetchVolume, readStoredVolume, type StoredVolume } from '../objects/volumes.ts';
import { stopPoint } from '../stop-point.ts';
import { volumeOwner } from '../volume-owner.ts';
import { logKey, type Manifest, type StoredLogFile, type StoredTimeline, volumeKey } from './manifest.ts';

const CONCURRENT_FILES = 4;
const START_TIMEOUT_MS = 600_000;

/** Where a backup is restored to: nothing else works there. */
export interface RestoreTarget
  extends Pick<EngineContext, 'storage' | 'archive' | 'compute' | 'distributions' | 'os_user'> {
  readonly objects: ObjectStore;
  /** A directory that is removed afterwards. */
  readonly scratch: string;
  readonly progress: (text: string) => void;
}

/** One volume to fetch, and another one to begin with that is fetched before. */
interface PlannedVolume {
  readonly id: string;
  readonly timeline: StoredTimeline;
  readonly base: string | undefined;
  /** Beside what it shares with the base. */
  readonly own_bytes: number;
  readonly bytes: number;
}

export interface RestorePlan {
  readonly volumes: readonly PlannedVolume[];
  /** What is still to be fetched takes so much of the storage. */
  readonly bytes: number;
}

/**
 * Reads which files there will be, and so how much room is needed. Each volume is made from the one that it has most in
 * common with: the snapshot before it, or one of the timeline that its own was made from.
 */
export async function planRestore(
  { objects, storage }: Pick<RestoreTarget, 'objects' | 'storage'>,
  { timelines }: Pick<Manifest, 'timelines'>,
): Promise<RestorePlan> {
  const chunks = chunksBelow(objects, '');
  const read = (id: string) => readStoredVolume({ objects, chunks, key: volumeKey(id) });
  const byId = new Map(timelines.map((timeline) => [timeline.id, timeline]));
  const firstOf = new Map<string, string>();
  const volumes: PlannedVolume[] = [];
  let bytes = 0;
  for (const timeline of timelines) {
    const parent = timeline.parent_id === null ? undefined : byId.get(timeline.parent_id);
    const first = firstOf.get(timeline.project_id);
    let candidates = [parent?.volumes.at(-1), parent?.volumes[0], first].filter((id) => id !== undefined);
    for (const id of timeline.volumes) {
      const wanted = await read(id);
      const best = await nearest(wanted, [...new Set(candidates)], read);
      volumes.push({ id, timeline, bytes: wanted.bytes, ...best });
      const there = (await storage.find(id)) !== undefined;
      if (!there) bytes += storage.capabilities.instant_clone ? best.own_bytes : wanted.bytes;
      // What a timeline goes on with is a copy of its newest snapshot.
      const copies = !timeline.frozen && id === timeline.volumes.at(-1) && !storage.capabilities.instant_clone;
      if (copies && !(await storage.find(timeline.id))) bytes += wanted.bytes;
      candidates = [id];
      if (!first) firstOf.set(timeline.project_id, id);
    }
    for (const file of timeline.log) bytes += file.bytes;
  }
  return { volumes, bytes };
}

async function nearest(
  wanted: StoredVolume,
  candidates: readonly string[],
  read: (id: string) => Promise<StoredVolume>,
): Promise<{ base: string | undefined; own_bytes: number }> {
  let best: { base: string | undefined; own_bytes: number } = { base: undefined, own_bytes: bytesBeside(wanted) };
  for (const base of candidates) {
    const own_bytes = bytesBeside(wanted, await read(base));
    if (own_bytes < best.own_bytes) best = { base, own_bytes };
  }
  return best;
}

/**
 * Every timeline of a backup is on this machine: snapshots, log, and the volume that it goes on with. What is there from an
 * earlier attempt stays. Every byte is compared with its checksum; ObjectError names what is missing or damaged.
 */
export async function fetchTimelines(target: RestoreTarget, manifest: Manifest, plan: RestorePlan): Promise<void> {
  const chunks = chunksBelow(target.objects, '');
  const fetched = new Map<string, FetchBase>();
  for (const [index, volume] of plan.volumes.entries()) {
    target.progress(`volumes: ${index + 1} of ${plan.volumes.length}`);
    const ref = await fetchOne(target, volume, { chunks, base: fetched.get(volume.base ?? '') });
    fetched.set(volume.id, { volume: ref, key: volumeKey(volume.id) });
    stopPoint('restore:volume');
  }
  for (const [index, timeline] of manifest.timelines.entries()) {
    target.progress(`timelines: ${index + 1} of ${manifest.timelines.length}`);
    const newest = fetched.get(timeline.volumes.at(-1) ?? '')!.volume;
    if (timeline.keeps_history) await fetchLog(target, timeline, newest);
    if (!timeline.frozen) await goOn(target, timeline, newest);
    stopPoint('restore:timeline');
  }
}

function fetchOne(
  { storage, objects, compute }: RestoreTarget,
  { id, timeline }: PlannedVolume,
  { chunks, base }: { chunks: Chunks; base: FetchBase | undefined },
): Promise<VolumeRef> {
  const owner = timeline.frozen ? volumeOwner({ compute }, timeline) : snapshotOwner();
  const from = { objects, chunks, key: volumeKey(id), id, owner };
  return base ? fetchPatched(storage, base, from) : fetchVolume(storage, from);
}

/** The volume that the timeline's server is started on, cleanly stopped. */
async function goOn(target: RestoreTarget, timeline: StoredTimeline, newest: VolumeRef): Promise<void> {
  const { storage, compute } = target;
  const { id, uid, distribution_id } = timeline;
  const owner = volumeOwner(target, timeline);
  const volume = await storage.ensureCloned(newest, id, { ...CLONE_OF_STOPPED, owner });
  const data_directory = storage.path(volume);
  if ((await readControlFile(data_directory)).state === 'shut down') return;
  // The copy of one that ran: it replays its log once, here, as whoever looks at sleeping volumes expects of them.
  const ref = firstServerRef(target, id);
  const spec = quietSpec(target, { id: ref.id, distribution_id, data_directory, uid, replays: false });
  await compute.ensureRunning(spec, AbortSignal.timeout(START_TIMEOUT_MS));
  stopPoint('restore:replayed');
  await compute.ensureStopped(ref, 'staged');
  await compute.ensureRemoved(ref);
}

async function fetchLog(target: RestoreTarget, timeline: StoredTimeline, newest: VolumeRef): Promise<void> {
  const { archive, storage, scratch } = target;
  await archive.ensureReady(timeline.id, volumeOwner(target, timeline));
  const there = new Map((await archive.list(timeline.id)).map(({ name, sha256 }) => [name, sha256]));
  const queue = timeline.log.filter(({ name, sha256 }) => there.get(name) !== sha256);
  await mkdir(scratch, { recursive: true, mode: 0o700 });
  const fetchOn = async (worker: number) => {
    const path = join(scratch, `file-${worker}`);
    for (let file = queue.shift(); file; file = queue.shift()) {
      await writeFile(path, await readLogFile(target.objects, timeline.id, file), { mode: 0o600 });
      await archive.takeCopy(timeline.id, file.name, path);
    }
    await rm(path, { force: true });
  };
  await Promise.all(Array.from({ length: CONCURRENT_FILES }, (_, worker) => fetchOn(worker)));
  // The one that the newest snapshot stands in: its server goes on in it, and archives it when it is full.
  const path = storage.path(newest);
  const { pg_timeline, wal_segment_bytes } = await recoveryStart(path);
  const lsn = timeline.newest_lsn;
  if (lsn === null) return;
  const name = walSegmentName(pg_timeline, parseLsn(lsn), wal_segment_bytes);
  await archive.takeCopy(timeline.id, name, join(path, 'pg_wal', name)).catch((error: NodeJS.ErrnoException) => {
    // It would begin just there.
    if (error.code !== 'ENOENT') throw error;
  });
}

async function readLogFile(objects: ObjectStore, timelineId: string, file: StoredLogFile): Promise<Buffer> {
  const key = logKey(timelineId, file);
  const bytes = await getSealed(objects, key);
  if (sha256Of(bytes).toString('hex') === file.sha256) return bytes;
  throw new ObjectError('damaged', key, `${key} in ${objects.place} is not what was stored there`);
}
