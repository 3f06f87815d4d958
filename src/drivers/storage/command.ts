import { execFile } from 'node:child_process';

const OUTPUT_BYTES_MAX = 1024 * 1024;

/** Messages in English, since some are read, and the directories of system tools, which a user's PATH often lacks. */
export const COMMAND_ENVIRONMENT = { PATH: `${process.env.PATH ?? '/usr/bin:/bin'}:/usr/sbin:/sbin`, LC_ALL: 'C' };

/** A system command that failed: what was run and what it said. */
export class CommandError extends Error {
  /** `ENOENT` when the command is not installed. */
  readonly code: string | undefined;

  constructor(command: string, args: readonly string[], problem: string, code: string | undefined, cause: unknown) {
    super(`"${[command, ...args].join(' ')}" failed: ${problem}`, { cause });
    this.name = 'CommandError';
    this.code = code;
  }
}

/** Runs a command of the system without a shell and returns what it prints. Throws CommandError. */
export function runCommand(
  command: string,
  args: readonly string[],
  options: { readonly timeout_ms: number },
): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(
      command,
      args,
      {
        env: COMMAND_ENVIRONMENT,
        timeout: options.timeout_ms,
        maxBuffer: OUTPUT_BYTES_MAX,
      },
      (error, stdout, stderr) => {
        if (!error) return resolve(stdout);
        const code = typeof error.code === 'string' ? error.code : undefined;
        const problem = code === 'ENOENT' ? 'it is not installed' : stderr.trim() || error.message;
        reject(new CommandError(command, args, problem, code, error));
      },
    );
  });
}
