import { type Command, InvalidArgumentError } from 'commander';
import { LIMITS } from '../domain/limits.ts';
import { nameProblem } from '../domain/names.ts';
import type { Settings } from '../domain/settings.ts';

/** What the commands do with the first user's keys. */
export interface KeyCommands {
  /** The secret is told this once. */
  create(name: string): Promise<{ id: number; secret: string }>;
  list(): Promise<readonly { id: number; name: string; created_at: Date; last_used_at: Date | null }[]>;
  revoke(id: number): Promise<void>;
}

interface KeysContext {
  readonly settings: () => Settings;
  readonly withKeys: <T>(settings: Settings, use: (keys: KeyCommands) => Promise<T>) => Promise<T>;
  readonly print: (text: string) => void;
}

/** Adds `keys create`, `keys list` and `keys revoke`. */
export function registerKeys(program: Command, { settings, withKeys, print }: KeysContext): void {
  const keys = program.command('keys').description('API keys of the first user; Coppice must be running');
  keys
    .command('create')
    .description('make a key; it is shown this once, alone on standard output')
    .option('--name <name>', 'what the key is for', readName, 'command line')
    .action(({ name }: { name: string }) =>
      withKeys(settings(), async ({ create }) => print(`${(await create(name)).secret}\n`)),
    );
  keys
    .command('list')
    .description('show the keys, without their secrets')
    .action(() => withKeys(settings(), async ({ list }) => print(formatKeys(await list()))));
  keys
    .command('revoke')
    .description('end a key, at once and for good')
    .argument('<id>', 'the number that keys list shows', readId)
    .action((id: number) =>
      withKeys(settings(), async ({ revoke }) => {
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

function formatKeys(keys: Awaited<ReturnType<KeyCommands['list']>>): string {
  if (keys.length === 0) return 'There are no keys; coppice keys create makes one.\n';
  const when = (date: Date | null) => date?.toISOString().slice(0, 19).replace('T', ' ') ?? 'never';
  const lines = keys.map(({ id, name, created_at, last_used_at }) =>
    [String(id).padEnd(9), when(created_at), `last used ${when(last_used_at)}`.padEnd(29), name].join('  '),
  );
  return `${lines.join('\n')}\n`;
}
