import { type Command, InvalidArgumentError } from 'commander';
import { LIMITS } from '../domain/limits.ts';
import { nameProblem } from '../domain/names.ts';
import type { Settings } from '../domain/settings.ts';
import { readEmail } from './read-email.ts';

/** What the commands do with one user's keys. */
export interface KeyCommands {
  /** The secret is told this once. */
  create(name: string, options: { read_only: boolean }): Promise<{ id: number; secret: string }>;
  list(): Promise<readonly ShownKey[]>;
  revoke(id: number): Promise<void>;
}

interface ShownKey {
  readonly id: number;
  readonly name: string;
  readonly read_only: boolean;
  readonly created_at: Date;
  readonly last_used_at: Date | null;
}

interface KeysContext {
  readonly settings: () => Settings;
  /** Of the user with that address; of the first one without. */
  readonly withKeys: <T>(
    settings: Settings,
    email: string | undefined,
    use: (keys: KeyCommands) => Promise<T>,
  ) => Promise<T>;
  readonly print: (text: string) => void;
}

/** Adds `keys create`, `keys list` and `keys revoke`. */
export function registerKeys(program: Command, { settings, withKeys, print }: KeysContext): void {
  const keys = program.command('keys').description('personal API keys; Coppice must be running');
  const whose = ['--email <address>', "the user's address; the first user if left out", readEmail] as const;
  keys
    .command('create')
    .description('make a key; it is shown this once, alone on standard output')
    .option('--name <name>', 'what the key is for', readName, 'command line')
    .option('--read-only', 'a key that may look and change nothing', false)
    .option(...whose)
    .action(({ name, readOnly, email }: { name: string; readOnly: boolean; email?: string }) =>
      withKeys(settings(), email, async ({ create }) =>
        print(`${(await create(name, { read_only: readOnly })).secret}\n`),
      ),
    );
  keys
    .command('list')
    .description('show the keys, without their secrets')
    .option(...whose)
    .action(({ email }: { email?: string }) =>
      withKeys(settings(), email, async ({ list }) => print(formatKeys(await list()))),
    );
  keys
    .command('revoke')
    .description('end a key, at once and for good')
    .argument('<id>', 'the number that keys list shows', readId)
    .option(...whose)
    .action((id: number, { email }: { email?: string }) =>
      withKeys(settings(), email, async ({ revoke }) => {
        await revoke(id);
        print(`Key ${id} is revoked.\n`);
      }),
    );
}

function readName(text: string): string {
  const problem = nameProblem(text, LIMITS.short_name_characters);
  if (problem) throw new InvalidArgumentError(`A key's name ${problem}.`);
  return text;
}

function readId(text: string): number {
  const id = Number(text);
  if (!Number.isSafeInteger(id) || id < 1) throw new InvalidArgumentError(`"${text}" is not the number of a key.`);
  return id;
}

function formatKeys(keys: readonly ShownKey[]): string {
  if (keys.length === 0) return 'There are no keys; coppice keys create makes one.\n';
  const when = (date: Date | null) => date?.toISOString().slice(0, 19).replace('T', ' ') ?? 'never';
  const lines = keys.map(({ id, name, read_only, created_at, last_used_at }) => {
    const used = `last used ${when(last_used_at)}`.padEnd(29);
    return [String(id).padEnd(9), when(created_at), used, read_only ? `${name} (read-only)` : name].join('  ');
  });
  return `${lines.join('\n')}\n`;
}
