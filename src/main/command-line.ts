import { Command, InvalidArgumentError } from 'commander';
import { registerBackup } from '../cli/backup.ts';
import { registerDoctor } from '../cli/doctor.ts';
import { registerExport } from '../cli/export.ts';
import { registerKeys } from '../cli/keys.ts';
import { registerPool } from '../cli/pool.ts';
import { readPassword } from '../cli/read-password.ts';
import { registerRestore } from '../cli/restore.ts';
import { registerStatus } from '../cli/status.ts';
import { readGivenSettings, registerUp, SettingsError } from '../cli/up.ts';
import { registerUsers } from '../cli/users.ts';
import { CoppiceError } from '../domain/errors.ts';
import { ObjectError } from '../drivers/objects/contract.ts';
import { CommandError } from '../drivers/storage/command.ts';
import { PoolError } from '../drivers/storage/pool-error.ts';
import { BackupError } from '../engine/backup/backup-error.ts';
import { StartError } from './start-error.ts';
import { VERSION } from './version.ts';

/** Reads the arguments, runs the command, and sets the exit code: 0, or 1 after one sentence on standard error. */
export async function runCommandLine(argv: readonly string[]): Promise<void> {
  const print = (text: string) => {
    process.stdout.write(text);
  };
  const settings = () => readGivenSettings({});
  const program = new Command('coppice')
    .description('Serverless Postgres on your own machines.')
    .version(VERSION, '-V, --version', 'show the version')
    .showHelpAfterError('(coppice --help tells more)');
  // What a command needs is loaded when it runs: most of the program, for some.
  registerUp(program, async (given) => (await import('./up.ts')).up(given));
  registerStatus(program, {
    settings,
    print,
    report: async (of) => (await import('./report-status.ts')).reportStatus(of),
  });
  registerDoctor(program, { settings, print, diagnose: async (of) => (await import('./diagnose.ts')).diagnose(of) });
  registerKeys(program, {
    settings,
    print,
    withKeys: async (of, email, use) => (await import('./keys.ts')).withKeys(of, email, use),
  });
  registerUsers(program, {
    settings,
    print,
    createUser: async (of, user) => (await import('./people.ts')).makeUser(of, user),
    listUsers: async (of) => (await import('./people.ts')).listUsers(of),
    resetLogin: async (of, reset) => (await import('./people.ts')).resetUser(of, reset),
    readPassword: () => readPassword(process.stdin, (text) => process.stderr.write(text)),
  });
  registerExport(program, {
    settings,
    print,
    exportBranch: async (of, request, told) => (await import('./export-branch.ts')).exportBranch(of, request, told),
  });
  registerPool(program, {
    dataDirectory: () => settings().data_dir,
    createPool: async (options) => (await import('./pool.ts')).makePool(options),
    unmountPool: async (directory) => (await import('./pool.ts')).releasePool(directory),
    report: async (directory) => (await import('./storage-report.ts')).reportStorage(directory),
    print,
  });
  const progress = progressTo(process.stderr);
  registerBackup(program, {
    settings,
    print,
    progress,
    commands: async (of, place) => (await import('./backup.ts')).backupCommands(of, place),
  });
  registerRestore(program, {
    settings,
    print,
    progress,
    restore: async (of, options) => (await import('./restore.ts')).restore(of, options),
  });
  program
    .command('version')
    .description('show the version')
    .action(() => print(`${VERSION}\n`));
  try {
    await program.parseAsync(argv);
  } catch (error) {
    process.stderr.write(`coppice: ${sentenceFor(error)}\n`);
    process.exitCode = 1;
  }
}

const CLEAR_LINE = '\r\x1b[K';

/** A terminal shows the newest line alone; anything else gets none, since it would fill a log. */
function progressTo(stream: NodeJS.WriteStream): (text: string) => void {
  return (text) => {
    if (stream.isTTY) stream.write(text === '' ? CLEAR_LINE : `${CLEAR_LINE}  ${text}`);
  };
}

/** What was written for people is shown as it is; anything else with its stack, since it is a mistake of ours. */
function sentenceFor(error: unknown): string {
  const sentences = [
    BackupError,
    StartError,
    CoppiceError,
    InvalidArgumentError,
    SettingsError,
    PoolError,
    CommandError,
    ObjectError,
  ];
  if (error instanceof Error && sentences.some((kind) => error instanceof kind)) return error.message;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
