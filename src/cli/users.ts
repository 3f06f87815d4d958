import { type Command, InvalidArgumentError } from 'commander';
import { LIMITS } from '../domain/limits.ts';
import { nameProblem } from '../domain/names.ts';
import type { Settings } from '../domain/settings.ts';
import { readEmail } from './read-email.ts';

export interface NewUser {
  readonly email: string;
  readonly name: string;
  /** Name of an organisation to make for the user. */
  readonly organization?: string;
}

interface UsersContext {
  readonly settings: () => Settings;
  /** Makes the user. Gives the secret of the user's first key, which is told this once. */
  readonly createUser: (settings: Settings, user: NewUser) => Promise<string>;
  readonly print: (text: string) => void;
}

/** Adds `users create`. */
export function registerUsers(program: Command, { settings, createUser, print }: UsersContext): void {
  const users = program.command('users').description('people who have an account; Coppice must be running');
  users
    .command('create')
    .description(
      'make a user, a member of every organization that invited the address; its first key is shown this once, alone on standard output',
    )
    .requiredOption('--email <address>', 'the address that invitations and shared projects name', readEmail)
    .option('--name <name>', 'what the user is called', readName, '')
    .option(
      '--organization <name>',
      'make an organization of that name for the user; without any invitation one is made anyway',
      readName,
    )
    .action(async (user: NewUser) => print(`${await createUser(settings(), user)}\n`));
}

function readName(text: string): string {
  const problem = nameProblem(text, LIMITS.short_name_characters);
  if (problem) throw new InvalidArgumentError(`A name ${problem}.`);
  return text;
}
