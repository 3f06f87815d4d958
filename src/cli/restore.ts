import type { Command } from 'commander';
import type { Settings } from '../domain/settings.ts';

interface RestoreOptions {
  readonly place: string;
  /** The newest, unless it is named. */
  readonly backup?: string;
  readonly master_key_file?: string;
  readonly progress: (text: string) => void;
}

/** What a restore has made. */
interface Restored {
  readonly id: string;
  readonly began_at: Date;
  readonly projects: number;
  readonly branches: number;
  readonly data_directory: string;
}

interface RestoreContext {
  readonly settings: () => Settings;
  readonly restore: (settings: Settings, options: RestoreOptions) => Promise<Restored>;
  readonly print: (text: string) => void;
  readonly progress: (text: string) => void;
}

/** Adds `restore`. */
export function registerRestore(program: Command, { settings, restore, print, progress }: RestoreContext): void {
  program
    .command('restore')
    .description('make an empty data directory what a backup holds; Coppice must not run there')
    .argument('<place>', 's3://bucket/prefix, or the absolute path of a directory')
    .option('--backup <id>', 'as coppice backup --list shows it (default: the newest)')
    .option(
      '--master-key-file <file>',
      'the master key of the installation (default: where COPPICE_MASTER_KEY_FILE says)',
    )
    .action(async (place: string, { backup, masterKeyFile }: { backup?: string; masterKeyFile?: string }) => {
      const done = await restore(settings(), { place, backup, master_key_file: masterKeyFile, progress });
      progress('');
      print(
        `${done.data_directory} holds ${done.projects} projects with ${done.branches} branches as of ${done.began_at.toISOString()}, from backup ${done.id}.\n` +
          'coppice up serves them; see that the installation it was made of does not run as well.\n',
      );
    });
}
