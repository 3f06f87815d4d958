import { Command } from 'commander';
import { registerDoctor } from '../cli/doctor.ts';
import { registerKeys } from '../cli/keys.ts';
import { registerPool } from '../cli/pool.ts';
import { registerStatus } from '../cli/status.ts';
import { readGivenSettings, registerUp, SettingsError } from '../cli/up.ts';
import { CoppiceError } from '../domain/errors.ts';
import { CommandError } from '../drivers/storage/command.ts';
import { createPool } from '../drivers/storage/create-pool.ts';
import { unmountPool } from '../drivers/storage/pool.ts';
import { PoolError } from '../drivers/storage/pool-error.ts';
import { diagnose } from './diagnose.ts';
import { withKeys } from './keys.ts';
import { reportStatus } from './report-status.ts';
import { StartError } from './start-error.ts';
import { reportStorage } from './storage-report.ts';
import { up } from './up.ts';
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
  registerUp(program, up);
  registerStatus(program, { settings, report: reportStatus, print });
  registerDoctor(program, { settings, diagnose, print });
  registerKeys(program, { settings, withKeys, print });
  registerPool(program, {
    dataDirectory: () => settings().data_dir,
    createPool,
    unmountPool,
    report: reportStorage,
    print,
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

/** What was written for people is shown as it is; anything else with its stack, since it is a mistake of ours. */
function sentenceFor(error: unknown): string {
  const sentences = [StartError, CoppiceError, SettingsError, PoolError, CommandError];
  if (error instanceof Error && sentences.some((kind) => error instanceof kind)) return error.message;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
