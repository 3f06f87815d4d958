import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TimelineId } from '../../domain/ids.ts';
import type { ObjectStore } from '../../drivers/objects/contract.ts';
import type { VolumeOwner, VolumeRef } from '../../drivers/storage/contract.ts';
import { findReadySnapshots } from '../../store/timeline-snapshots.ts';
import type { EngineContext } from '../context.ts';
import { whileHeld } from '../history/snapshot-work.ts';
import { snapshotOwner, takeSnapshot } from '../history/snapshots.ts';
import { stopPoint } from '../stop-point.ts';
import { type Chunks, chunksBelow } from './chunks.ts';
import { bytesBeside, type FetchBase, fetchPatched } from './patched-volume.ts';
import { getSealed, putSealed } from './sealed.ts';
import { fetchVolume, type ObjectVolume, putVolume, readStoredVolume } from './volumes.ts';

/**
 * A whole timeline in object storage: its volume, the snapshots that its past is replayed from, and its archived log. The
 * chunks come first, then the lists of the volumes, and last the list that says that all is there.
 */

const FORMAT = 1;
const REMOVED_AT_ONCE = 500;
const SNAPSHOT_KINDS = ['birth', 'suspend', 'running'] as const;
const LOG_FILE = /^([0-9A-F]{24}|[0-9A-F]{8}\.history)$/;

interface StoredSnapshot {
  readonly volume: string;
  readonly kind: (typeof SNAPSHOT_KINDS)[number];
  readonly lsn: string;
  readonly taken_at: string;
}

/** What the last object says. `volume` names the list of a volume, `chunk` what a file of the log holds. */
interface StoredTimeline {
  readonly format: number;
  /** Logical bytes of everything. */
  readonly bytes: number;
  readonly volume: string;
  readonly snapshots: readonly StoredSnapshot[];
  readonly log: readonly { readonly name: string; readonly chunk: string }[];
}

const prefixOf = (id: TimelineId): string => `timelines/${id}/archived/`;
const listKey = (id: TimelineId): string => `${prefixOf(id)}list`;

/** Where the parts of a timeline lie. */
interface Place {
  readonly objects: ObjectStore;
  readonly chunks: Chunks;
  readonly signal: AbortSignal;
  of(volume: string): ObjectVolume;
}

function placeOf(objects: ObjectStore, id: TimelineId, signal: AbortSignal): Place {
  const chunks = chunksBelow(objects, prefixOf(id));
  const of = (volume: string) => ({ objects, chunks, key: `${prefixOf(id)}volumes/${volume}`, signal });
  return { objects, chunks, signal, of };
}

/**
 * Everything of a timeline that no server runs on is in object storage when this returns. Nobody may write to the volume
 * meanwhile. What an earlier attempt has sent is not sent again.
 */
export async function putTimeline(
  ctx: EngineContext,
  objects: ObjectStore,
  { id, volume, signal }: { readonly id: TimelineId; readonly volume: VolumeRef; readonly signal: AbortSignal },
): Promise<void> {
  const place = placeOf(objects, id, signal);
  // What was there before must not be taken for what is there now.
  await objects.ensureRemoved([listKey(id)], { signal });
  let bytes = await putVolume(ctx.storage, volume, place.of(id));
  stopPoint('timeline_archive:volume');
  const snapshots: StoredSnapshot[] = [];
  for (const { id: snapshot, volume: copy, kind, lsn, taken_at } of await findReadySnapshots(ctx.store, id)) {
    const stored = await whileHeld(ctx, snapshot, {
      work: () => putVolume(ctx.storage, copy, place.of(snapshot)),
      // It goes at this moment, since the window has left it behind.
      refused: () => undefined,
    });
    if (stored === undefined) continue;
    bytes += stored;
    snapshots.push({ volume: snapshot, kind, lsn, taken_at: taken_at.toISOString() });
  }
  stopPoint('timeline_archive:snapshots');
  const log: { name: string; chunk: string }[] = [];
  for (const { name } of await ctx.archive.list(id)) {
    signal.throwIfAborted();
    const segment = await ctx.archive.read(id, name);
    log.push({ name, chunk: await place.chunks.put(segment, signal) });
    bytes += segment.length;
  }
  const list: StoredTimeline = { format: FORMAT, bytes, volume: id, snapshots, log };
  await putSealed(objects, listKey(id), Buffer.from(JSON.stringify(list)), signal);
}

/**
 * How much room a stored timeline takes here, in bytes: what its volumes have in common counts once where the storage shares
 * it. Throws an ObjectError when it is not there or is damaged.
 */
export async function bytesOfStored(
  ctx: EngineContext,
  objects: ObjectStore,
  { id, base, signal }: Pick<WantedTimeline, 'id' | 'base' | 'signal'>,
): Promise<number> {
  const place = placeOf(objects, id, signal);
  const list = await readList(objects, id, signal);
  const whole = await readStoredVolume(place.of(list.volume));
  if (!ctx.storage.capabilities.instant_clone) return list.bytes;
  let bytes = bytesBeside(whole, base && (await readStoredVolume({ ...place.of(list.volume), key: base.key })));
  let log_bytes = list.bytes - whole.bytes;
  for (const { volume } of list.snapshots) {
    const snapshot = await readStoredVolume(place.of(volume));
    bytes += bytesBeside(snapshot, whole);
    log_bytes -= snapshot.bytes;
  }
  return bytes + log_bytes;
}

/** A stored timeline that is to be here again. */
interface WantedTimeline {
  readonly id: TimelineId;
  readonly owner?: VolumeOwner;
  /** A volume with which its own has much in common, and which is as it was stored. */
  readonly base?: FetchBase;
  readonly signal: AbortSignal;
}

/** The volume of a timeline, of which all is stored still, and to which nothing was written since it came back. */
export const storedBase = (id: TimelineId, volume: VolumeRef): FetchBase => ({
  volume,
  key: `${prefixOf(id)}volumes/${id}`,
});

/**
 * Everything of a stored timeline is on this machine again, durably, when this returns its volume. Nothing of it may have
 * been here before.
 */
export async function fetchTimeline(
  ctx: EngineContext,
  objects: ObjectStore,
  { id, owner, base: parent, signal }: WantedTimeline,
): Promise<VolumeRef> {
  const place = placeOf(objects, id, signal);
  const list = await readList(objects, id, signal);
  const whole = place.of(list.volume);
  const wanted = { ...whole, id, owner };
  const volume = await (parent ? fetchPatched(ctx.storage, parent, wanted) : fetchVolume(ctx.storage, wanted));
  const base = { volume, key: whole.key };
  stopPoint('timeline_unarchive:volume');
  for (const snapshot of list.snapshots) {
    await takeSnapshot(ctx, {
      timeline_id: id,
      kind: snapshot.kind,
      store: ctx.intent,
      copy: async (copy) => ({
        // What it has in common with the volume takes no room of its own.
        volume: await fetchPatched(ctx.storage, base, {
          ...place.of(snapshot.volume),
          id: copy,
          owner: snapshotOwner(),
        }),
        point: { lsn: snapshot.lsn, timestamp: new Date(snapshot.taken_at) },
      }),
    });
  }
  stopPoint('timeline_unarchive:snapshots');
  if (list.log.length > 0) await ctx.archive.ensureReady(id, owner);
  const directory = await mkdtemp(join(tmpdir(), 'coppice-log-'));
  try {
    for (const { name, chunk } of list.log) {
      signal.throwIfAborted();
      const path = join(directory, randomUUID());
      await writeFile(path, await place.chunks.get(chunk, signal), { mode: 0o600, flag: 'wx' });
      await ctx.archive.takeCopy(id, name, path);
      await rm(path);
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
  stopPoint('timeline_unarchive:log');
  return volume;
}

/** Nothing of the timeline is left in object storage; what says that it is whole goes first. */
export async function removeStored(objects: ObjectStore, id: TimelineId, signal?: AbortSignal): Promise<void> {
  await objects.ensureRemoved([listKey(id)], { signal });
  let keys: string[] = [];
  for await (const { key } of objects.list(prefixOf(id), { signal })) {
    keys.push(key);
    if (keys.length < REMOVED_AT_ONCE) continue;
    await objects.ensureRemoved(keys, { signal });
    keys = [];
  }
  await objects.ensureRemoved(keys, { signal });
}

async function readList(objects: ObjectStore, id: TimelineId, signal: AbortSignal): Promise<StoredTimeline> {
  const key = listKey(id);
  const list = JSON.parse((await getSealed(objects, key, signal)).toString()) as StoredTimeline;
  if (list.format !== FORMAT) {
    throw new Error(`${key} in ${objects.place} was written by a newer Coppice (format ${list.format})`);
  }
  const strange = list.log.find(({ name }) => !LOG_FILE.test(name))?.name;
  const strangeKind = list.snapshots.find(({ kind }) => !SNAPSHOT_KINDS.includes(kind))?.kind;
  if (strange ?? strangeKind)
    throw new Error(`${key} in ${objects.place} holds ${JSON.stringify(strange ?? strangeKind)}`);
  return list;
}
