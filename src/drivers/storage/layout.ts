import { randomUUID } from 'node:crypto';
import { join } from 'node:path';

/**
 * Where things lie below a storage root. `volumes/<id>` is a finished volume. A half-made one lies in
 * `volumes/.<id>.partial`, a directory of our own, so that no owner can enter what is not finished. Its name there is new each time: a
 * command that outlives a killed Coppice still makes or removes something, and must not meet the next attempt.
 * `volumes/.<id>.deleted` is one on its way out: a rename in place works on a full disk, where a new directory may not.
 */
const ID = /^[A-Za-z0-9-]{1,80}$/;
const UNFINISHED = /^\.([A-Za-z0-9-]{1,80})\.(?:partial|deleted)$/;

export interface VolumePaths {
  readonly final: string;
  readonly partial: string;
  /** A volume inside `partial` that nothing was ever at. */
  readonly unfinished: string;
  readonly deleted: string;
}

export const volumesDirectory = (root: string): string => join(root, 'volumes');

/** Throws on an id that could mean another path. */
export function volumePaths(root: string, id: string): VolumePaths {
  if (!ID.test(id)) throw new Error(`${JSON.stringify(id)} is not a volume id: 1 to 80 letters, digits and hyphens`);
  const volumes = volumesDirectory(root);
  const partial = join(volumes, `.${id}.partial`);
  return {
    final: join(volumes, id),
    partial,
    unfinished: join(partial, randomUUID()),
    deleted: join(volumes, `.${id}.deleted`),
  };
}

/** The id that a name in the volumes directory stands for; undefined for a name that is not ours. */
export function idOfName(name: string): string | undefined {
  return ID.test(name) ? name : UNFINISHED.exec(name)?.[1];
}
