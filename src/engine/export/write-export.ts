import { ObjectError } from '../../drivers/objects/contract.ts';
import type { ExportBase } from '../../store/schema.ts';
import { stopPoint } from '../stop-point.ts';
import { barmanBackupId, barmanBackupInfo } from './backup-info.ts';
import { baseArchive } from './base-archive.ts';
import { type ExportSource, type ExportTarget, exportLog } from './log.ts';
import { stockConfiguration } from './stock-configuration.ts';

export interface WrittenExport {
  readonly backup_id: string;
  /** Of the archive of the base. */
  readonly bytes: number;
  /** The name of the last segment that is in the place. */
  readonly last_segment: string;
}

/** The place holds something else under that name. Its message is for the person who asked. */
export class ExportRefused extends Error {
  override name = 'ExportRefused';
}

/**
 * Writes a base and its log in the layout of barman's cloud tools: `<server>/base/<id>/{data.tar,backup.info}` and
 * `<server>/wals/<first 16 digits>/<segment>`. What tells of the base is written last; until then nobody sees it.
 * Log that is there already is written again, since the last segment may have been a part. Nobody else may write under the
 * same name meanwhile: what looks unfinished there is removed.
 *
 * @param told is called with how many bytes of the base were written so far
 * @throws ExportRefused where the name is taken by another history
 */
export async function writeExport(
  { base, ...from }: Pick<ExportSource, 'storage' | 'archive'> & { readonly base: ExportBase },
  target: ExportTarget,
  told: (bytes: number) => void = () => undefined,
): Promise<WrittenExport> {
  const { objects, server_name, signal } = target;
  const source: ExportSource = { ...from, ...base };
  const times = { started_at: new Date(base.started_at), stopped_at: new Date(base.stopped_at) };
  await claimName(target, base.timeline_id);
  await removeUnfinished(target);
  const backup_id = await freeBackupId(target, times.started_at);
  const added = new Map([...stockConfiguration(base.settings), ['backup_label', base.label]]);
  const archive = baseArchive(from.storage, base.volume, { added, signal });
  const counted = async function* () {
    let bytes = 0;
    for await (const piece of archive) {
      bytes += piece.length;
      told(bytes);
      yield piece;
    }
  };
  const { bytes } = await objects.putStream(`${server_name}/base/${backup_id}/data.tar`, counted(), { signal });
  stopPoint('export:archived');
  const last_segment = await exportLog(source, target);
  const info = barmanBackupInfo({ ...base, ...times, server_name, bytes });
  await objects.put(`${server_name}/base/${backup_id}/backup.info`, Buffer.from(info), { signal });
  return { backup_id, bytes, last_segment };
}

/**
 * Branches of a project write different log under the same file names: what is under one name is of one timeline. The file
 * that says which lies beside what barman looks at.
 */
async function claimName({ objects, server_name, signal }: ExportTarget, timeline_id: string): Promise<void> {
  const key = `${server_name}/coppice.json`;
  const claim = await objects.get(key, { signal }).catch((error) => {
    if (error instanceof ObjectError && error.kind === 'missing') return undefined;
    throw error;
  });
  const another = 'choose another with --server-name';
  if (claim) {
    if (JSON.parse(claim.toString()).timeline_id === timeline_id) return;
    throw new ExportRefused(
      `${objects.place} holds the history of another branch, or of this one before a restore, as ${server_name}: ${another}`,
    );
  }
  for await (const _ of objects.list(`${server_name}/`, { signal })) {
    throw new ExportRefused(`${objects.place} holds something else as ${server_name}: ${another}`);
  }
  await objects.put(key, Buffer.from(`${JSON.stringify({ timeline_id })}\n`), { signal });
}

/** What one that was killed has left: an archive that nothing tells of. */
async function removeUnfinished({ objects, server_name, signal }: ExportTarget): Promise<void> {
  const archives: string[] = [];
  const told = new Set<string>();
  for await (const { key } of objects.list(`${server_name}/base/`, { signal })) {
    const directory = key.slice(0, key.lastIndexOf('/') + 1);
    if (key === `${directory}data.tar`) archives.push(directory);
    else told.add(directory);
  }
  const unfinished = archives.filter((directory) => !told.has(directory));
  await objects.ensureRemoved(
    unfinished.map((directory) => `${directory}data.tar`),
    { signal },
  );
}

/** Its time, or the first second after it of which the place has no backup. */
async function freeBackupId({ objects, server_name, signal }: ExportTarget, at: Date): Promise<string> {
  for (let time = at.getTime(); ; time += 1000) {
    const id = barmanBackupId(new Date(time));
    let taken = false;
    for await (const _ of objects.list(`${server_name}/base/${id}/`, { signal })) {
      taken = true;
      break;
    }
    if (!taken) return id;
  }
}
