import { type Command, InvalidArgumentError } from 'commander';
import type { Settings } from '../domain/settings.ts';

/** A finished backup. */
export interface BackupSummary {
  readonly id: string;
  /** What was committed before is in it. */
  readonly began_at: Date;
  readonly version: string;
  readonly projects: number;
  readonly branches: number;
}

interface MadeBackup extends BackupSummary {
  readonly sent_bytes: number;
  /** What is in it only as it was earlier, or not at all. */
  readonly problems: readonly { readonly timeline_id: string; readonly reason: string }[];
  readonly swept: { readonly removed: readonly string[]; readonly bytes: number } | undefined;
  readonly master_key_file: string;
}

/** What the command does with one place. */
export interface BackupCommands {
  list(): Promise<readonly BackupSummary[]>;
  make(options: { keep: number | undefined; progress: (text: string) => void }): Promise<MadeBackup>;
}

interface BackupContext {
  readonly settings: () => Settings;
  readonly commands: (settings: Settings, place: string) => Promise<BackupCommands>;
  readonly print: (text: string) => void;
  /** For people who look on; output stays what a program can read. */
  readonly progress: (text: string) => void;
}

/** Adds `backup`. Exit code 1 when the backup does not hold everything as it is now. */
export function registerBackup(program: Command, { settings, commands, print, progress }: BackupContext): void {
  program
    .command('backup')
    .description('keep everything in a directory or a bucket, while Coppice runs: records, branches and their history')
    .argument('<place>', 's3://bucket/prefix, or the absolute path of a directory')
    .option('--list', 'show the backups that are there, and make none')
    .option('--keep <number>', 'afterwards remove all but the newest so many', readCount)
    .action(async (place: string, { list, keep }: { list?: true; keep?: number }) => {
      const backups = await commands(settings(), place);
      if (list) return print(formatList(await backups.list()));
      const made = await backups.make({ keep, progress });
      progress('');
      print(formatMade(made));
      if (made.problems.length > 0) process.exitCode = 1;
    });
}

function readCount(text: string): number {
  const count = Number(text);
  if (!Number.isSafeInteger(count) || count < 1)
    throw new InvalidArgumentError(`"${text}" is not a number of backups.`);
  return count;
}

const mib = (bytes: number): string => `${(bytes / 1024 ** 2).toFixed(1)} MiB`;

function formatList(backups: readonly BackupSummary[]): string {
  if (backups.length === 0) return 'There are no backups.\n';
  const lines = backups.map(({ id, began_at, version, projects, branches }) =>
    [id, began_at.toISOString(), `${projects} projects, ${branches} branches`, `Coppice ${version}`].join('  '),
  );
  return `${lines.join('\n')}\n`;
}

function formatMade({ id, began_at, projects, branches, sent_bytes, problems, swept, master_key_file }: MadeBackup) {
  const lines = [
    `Backup ${id} holds ${projects} projects with ${branches} branches as of ${began_at.toISOString()}; ${mib(sent_bytes)} were sent.`,
  ];
  if (swept && swept.removed.length > 0) {
    lines.push(`Removed ${swept.removed.length} older backups, ${mib(swept.bytes)}.`);
  }
  lines.push(`The master key is not in it: keep ${master_key_file} elsewhere, a restore needs it.`);
  for (const { timeline_id, reason } of problems) lines.push(`NOT WHOLE: timeline ${timeline_id}: ${reason}`);
  return `${lines.join('\n')}\n`;
}
