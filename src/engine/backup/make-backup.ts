import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { ObjectStore } from '../../drivers/objects/contract.ts';
import {
  deleteBackupRequest,
  findBackupRequest,
  insertBackupRequest,
  isBackupUnderWay,
  isEngineAlive,
  repeatBackupRequest,
} from '../../store/backup-requests.ts';
import type { Store } from '../../store/connection.ts';
import type { BackupProblem } from '../../store/schema.ts';
import { chunksBelow } from '../objects/chunks.ts';
import { stopPoint } from '../stop-point.ts';
import { sendArchived } from './archived-timelines.ts';
import { BackupError } from './backup-error.ts';
import { type Manifest, PREFIXES, putManifest, type StoredArchived, type StoredTimeline } from './manifest.ts';
import { type BackupSource, type BackupTarget, NothingToSend, sendTimeline } from './send-timeline.ts';
import { isOutdated, putStoreMoment, type StoreMoment } from './store-moment.ts';

/** Something that was to be sent may go meanwhile, and something new may come; each time less is left to send. */
const ATTEMPTS_MAX = 6;
const POLL_MS = 100;
/** The engine of a Coppice that lives says so every few seconds. */
const ENGINE_SILENCE_MS = 60_000;
const SEGMENTS_NAMED_MAX = 3;

export interface BackupWork {
  /** The installation's own database; the caller holds it by `asOnlyBackup`. */
  readonly store: Store;
  readonly source: BackupSource;
  /** The object storage of the installation, if it has one. */
  readonly own_objects: ObjectStore | undefined;
  /** The place; the caller holds its lease. */
  readonly objects: ObjectStore;
  readonly version: string;
  readonly master_key_check: string;
  readonly progress: (text: string) => void;
}

/** What was to be sent is not there any more. */
class Outdated extends Error {}

/**
 * Makes a backup of everything while Coppice runs: asks the engine for snapshots, writes down our own database as it is
 * after that, sends what this refers to, and then the manifest. What goes while it is sent, and what is made meanwhile, is
 * found out, and leads to another look. Whatever is killed, the place holds the backups that were finished.
 *
 * @throws BackupError, and ObjectError when the place cannot be used
 */
export async function makeBackup(work: BackupWork): Promise<Manifest> {
  const { store, objects, progress } = work;
  const { id: request_id, asked_at } = await insertBackupRequest(store);
  const time = asked_at.toISOString().slice(0, 19).replaceAll(/[-:]/g, '');
  const backup = { id: `${time}Z-${randomBytes(4).toString('hex')}`, began_at: asked_at.toISOString() };
  try {
    const target = await openTarget(objects);
    for (let attempt = 1; ; attempt++) {
      try {
        return await attemptBackup(work, { backup, request_id, target });
      } catch (error) {
        if (!(error instanceof Outdated)) throw error;
        if (attempt === ATTEMPTS_MAX)
          throw new BackupError(`too much changed while the backup was made: ${error.message}`);
        progress(`${error.message}; looking again`);
        await repeatBackupRequest(store, request_id);
      }
    }
  } finally {
    await deleteBackupRequest(store, request_id).catch(() => undefined);
  }
}

async function openTarget(objects: ObjectStore): Promise<BackupTarget & { readonly sent_bytes: number }> {
  const known = new Set<string>();
  for (const prefix of [PREFIXES.volumes, PREFIXES.log, PREFIXES.archived]) {
    for await (const { key } of objects.list(prefix)) known.add(key);
  }
  const chunks = chunksBelow(objects, '');
  let others_bytes = 0;
  const sent = (bytes: number) => {
    others_bytes += bytes;
  };
  return {
    ...{ objects, chunks, known, sent },
    get sent_bytes() {
      return others_bytes + chunks.sent_bytes;
    },
  };
}

async function attemptBackup(
  work: BackupWork,
  at: {
    readonly backup: Pick<Manifest, 'id' | 'began_at'>;
    readonly request_id: string;
    readonly target: Awaited<ReturnType<typeof openTarget>>;
  },
): Promise<Manifest> {
  const { store, objects, version, master_key_check, progress } = work;
  const { backup, target } = at;
  const problems = await untilSnapshots(work, at.request_id);
  const moment = await putStoreMoment(store, { objects, id: backup.id, sent: target.sent });
  stopPoint('backup:dumped');
  const { timelines, problems: more } = await sendAll(work, moment, { target, problems });
  const archived = await sendAllArchived(work, moment, target);
  stopPoint('backup:sent');
  if (!(await isBackupUnderWay(store))) {
    throw new BackupError("Coppice's own database went away while the backup was made: make it again");
  }
  const { dump, parts, projects, branches, installation_id } = moment;
  const manifest = {
    ...backup,
    ...{ version, installation_id, master_key_check, dump, parts, projects, branches, timelines, archived },
    problems: [...problems, ...more],
    sent_bytes: target.sent_bytes,
    ended_at: new Date().toISOString(),
  };
  progress('writing the manifest');
  return putManifest(objects, manifest);
}

/** Waits until the engine has taken snapshots of everything; returns what it could not. */
async function untilSnapshots({ store, progress }: BackupWork, request_id: string): Promise<readonly BackupProblem[]> {
  let told = '';
  for (;;) {
    const request = await findBackupRequest(store, request_id);
    if (!request) throw new BackupError('another backup was begun meanwhile');
    if (request.snapshots_at) return request.problems;
    if (!(await isEngineAlive(store, { silence_ms: ENGINE_SILENCE_MS }))) {
      throw new BackupError(
        'no Coppice runs here that could take the snapshots: start it with npm start, and make the backup again',
      );
    }
    const text = `snapshots: ${request.timelines_done} of ${request.timelines}`;
    if (text !== told) progress(text);
    told = text;
    await delay(POLL_MS);
  }
}

/** @throws Outdated */
async function sendAll(
  { store, source, progress }: BackupWork,
  { timelines }: StoreMoment,
  { target, problems }: { target: BackupTarget; problems: readonly BackupProblem[] },
): Promise<{ timelines: StoredTimeline[]; problems: BackupProblem[] }> {
  const sent: StoredTimeline[] = [];
  const found: BackupProblem[] = [];
  for (const [index, backed] of timelines.entries()) {
    const { id: timeline_id } = backed.timeline;
    progress(`sending: ${index + 1} of ${timelines.length}`);
    try {
      const { stored, missing } = await sendTimeline(source, backed.timeline, backed.snapshots, target);
      sent.push(stored);
      if (missing.length > 0) found.push({ timeline_id, reason: gapIn(missing) });
    } catch (error) {
      const known = problems.some((problem) => problem.timeline_id === timeline_id);
      if (error instanceof NothingToSend && known) continue;
      if (error instanceof NothingToSend || (await isOutdated(store, backed))) {
        throw new Outdated(`timeline ${timeline_id} changed while it was sent`);
      }
      throw error;
    }
    stopPoint('backup:timeline');
  }
  return { timelines: sent, problems: found };
}

const gapIn = (missing: readonly string[]): string =>
  `${missing.length} segments of its history are missing or damaged: ${missing.slice(0, SEGMENTS_NAMED_MAX).join(', ')}`;

/** @throws Outdated */
async function sendAllArchived(
  { own_objects, progress }: BackupWork,
  { archived }: StoreMoment,
  target: BackupTarget,
): Promise<StoredArchived[]> {
  if (archived.length > 0 && !own_objects) {
    throw new BackupError('branches are archived, and COPPICE_OBJECTS does not say where: set it as for coppice up');
  }
  const sent: StoredArchived[] = [];
  for (const [index, timeline] of archived.entries()) {
    progress(`archived branches: ${index + 1} of ${archived.length}`);
    try {
      sent.push(await sendArchived(own_objects!, timeline, target));
    } catch (error) {
      throw error instanceof NothingToSend ? new Outdated(error.message) : error;
    }
  }
  return sent;
}
