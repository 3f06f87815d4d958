import { ObjectError, type ObjectStore } from '../../drivers/objects/contract.ts';
import type { StoreDump } from '../../store/dump.ts';
import type { BackupProblem } from '../../store/schema.ts';
import { getSealed, putSealed } from '../objects/sealed.ts';
import { BackupError } from './backup-error.ts';

/**
 * Where things lie in the place of backups: `backups/<id>` tells all that a backup is made of, and is written last;
 * `dumps/<id>/` are the rows of our own database; `volumes/<id>` are lists of the files of a snapshot's volume, and
 * `chunks/` what the files hold; `log/<timeline>/` are segments, and `archived/<timeline>/` copies of what is in object storage alone. But for the first two, backups share what they have in common.
 */
export const PREFIXES = {
  backups: 'backups/',
  dumps: 'dumps/',
  volumes: 'volumes/',
  chunks: 'chunks/',
  log: 'log/',
  archived: 'archived/',
};

const FORMAT = 1;
const ID = /^\d{8}T\d{6}Z-[0-9a-f]{8}$/;

/** A file of a log; those of one name that hold something else, of a restored installation, are other objects. */
export interface StoredLogFile {
  readonly name: string;
  readonly sha256: string;
  readonly bytes: number;
}

export interface StoredTimeline {
  readonly id: string;
  readonly parent_id: string | null;
  readonly project_id: string;
  readonly uid: number;
  readonly distribution_id: string;
  /** A snapshot of the API: its only volume has its own id, and nobody writes to it. */
  readonly frozen: boolean;
  /** It keeps a log, and more snapshots than the newest. */
  readonly keeps_history: boolean;
  /** Ids of volumes, oldest first; the timeline goes on from the last. */
  readonly volumes: readonly string[];
  /** Where the last of them stands in the log; null of one that nobody writes to. */
  readonly newest_lsn: string | null;
  readonly log: readonly StoredLogFile[];
}

/** A timeline that was in the object storage of its installation alone. */
export interface StoredArchived {
  readonly id: string;
  /** Archived again, it is another one. */
  readonly archived_at: string;
  readonly names: readonly string[];
}

export interface Manifest {
  readonly format: number;
  /** By time: `20261122T001635Z-1a2b3c4d` */
  readonly id: string;
  readonly version: string;
  readonly installation_id: string;
  readonly began_at: string;
  readonly ended_at: string;
  /** Tells the master key that passwords are sealed under, and nothing of it. */
  readonly master_key_check: string;
  readonly dump: StoreDump;
  /** How many objects the rows of each table are in. */
  readonly parts: Readonly<Record<string, number>>;
  readonly timelines: readonly StoredTimeline[];
  readonly archived: readonly StoredArchived[];
  readonly problems: readonly BackupProblem[];
  readonly projects: number;
  readonly branches: number;
  readonly sent_bytes: number;
}

export const manifestKey = (id: string): string => `${PREFIXES.backups}${id}`;
export const volumeKey = (id: string): string => `${PREFIXES.volumes}${id}`;
export const dumpKey = (id: string, table: string, part: number): string => `${PREFIXES.dumps}${id}/${table}-${part}`;
export const archivedKey = ({ id, archived_at }: Pick<StoredArchived, 'id' | 'archived_at'>, name: string): string =>
  `${PREFIXES.archived}${id}/${archived_at.replaceAll(/[^0-9]/g, '')}/${name}`;
export const logKey = (timelineId: string, { name, sha256 }: StoredLogFile): string =>
  `${PREFIXES.log}${timelineId}/${name}-${sha256.slice(0, 32)}`;

/** The backup is there from now on. */
export async function putManifest(objects: ObjectStore, said: Omit<Manifest, 'format'>): Promise<Manifest> {
  const manifest = { format: FORMAT, ...said };
  await putSealed(objects, manifestKey(said.id), Buffer.from(JSON.stringify(manifest)));
  return manifest;
}

/** Throws BackupError for one that is missing, damaged or of a newer version, and ObjectError when the place cannot be read. */
export async function getManifest(objects: ObjectStore, id: string): Promise<Manifest> {
  if (!ID.test(id)) throw new BackupError(`"${id}" is not the id of a backup`);
  const bytes = await getSealed(objects, manifestKey(id)).catch((error) => {
    if (!(error instanceof ObjectError)) throw error;
    if (error.kind === 'missing') throw new BackupError(`there is no backup ${id} in ${objects.place}`);
    if (error.kind === 'damaged') throw new BackupError(`the backup ${id} in ${objects.place} is damaged`);
    throw error;
  });
  const manifest = JSON.parse(bytes.toString()) as Manifest;
  if (manifest.format === FORMAT) return manifest;
  throw new BackupError(`the backup ${id} in ${objects.place} was made by a newer Coppice (${manifest.version})`);
}

/** Ids of finished backups, oldest first. */
export async function listBackups(objects: ObjectStore): Promise<string[]> {
  const ids: string[] = [];
  for await (const { key } of objects.list(PREFIXES.backups)) ids.push(key.slice(PREFIXES.backups.length));
  return ids.filter((id) => ID.test(id)).sort();
}
