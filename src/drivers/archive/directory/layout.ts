import { join } from 'node:path';

/**
 * Where things lie below an archive's root. `<timeline>/incoming` belongs to the server's user; `<timeline>/log/<group>`
 * is ours: some hundred files and `sums`, a line for each. `<timeline>/refused` holds what was not taken in.
 */
const TIMELINE = /^[A-Za-z0-9-]{1,80}$/;
const SEGMENT = /^[0-9A-F]{24}$/;
const HISTORY = /^[0-9A-F]{8}\.history$/;

export interface ArchivePaths {
  readonly timeline: string;
  readonly incoming: string;
  readonly log: string;
  readonly refused: string;
}

export const isTimeline = (name: string): boolean => TIMELINE.test(name);

/** Throws on an id that could mean another path. */
export function archivePaths(root: string, timelineId: string): ArchivePaths {
  if (!isTimeline(timelineId)) throw new Error(`${JSON.stringify(timelineId)} is not a timeline's id`);
  const timeline = join(root, timelineId);
  return {
    timeline,
    incoming: join(timeline, 'incoming'),
    log: join(timeline, 'log'),
    refused: join(timeline, 'refused'),
  };
}

/** The names that an archive takes. Backup labels (`.backup`) are of no use to it. */
export const isArchivable = (name: string): boolean => SEGMENT.test(name) || HISTORY.test(name);

/** What `archive_command` is writing where it cannot link. */
export const isUnfinished = (name: string): boolean => {
  const [, of = ''] = /^\.(.*)\.part$/.exec(name) ?? [];
  return isArchivable(of);
};

/** 256 segments to a directory; history files, of which there are few, lie in one. */
export function groupOf(name: string): string {
  if (!isArchivable(name)) throw new Error(`${JSON.stringify(name)} is not the name of a file of the log`);
  return SEGMENT.test(name) ? name.slice(0, 22) : 'history';
}
