import { type Command, InvalidArgumentError } from 'commander';
import { LIMITS } from '../domain/limits.ts';
import { nameProblem } from '../domain/names.ts';
import type { Settings } from '../domain/settings.ts';
import { readEmail } from './read-email.ts';

/** What a new person gets at first. */
export type FirstAccess = 'key' | 'link' | { readonly password: string };

export interface NewUser {
  readonly email: string;
  readonly name: string;
  /** Name of an organisation to make for the user. */
  readonly organization?: string;
  readonly access: FirstAccess;
}

export interface ListedUser {
  readonly email: string;
  readonly name: string;
  readonly created_at: Date;
  readonly has_password: boolean;
  readonly two_factor_enabled: boolean;
  readonly sessions: number;
}

export interface LoginResetRequest {
  readonly email: string;
  /** Undefined: a link is made with which the person sets one. */
  readonly password: string | undefined;
  readonly drop_second_factor: boolean;
}

interface UsersContext {
  readonly settings: () => Settings;
  /** Makes the user. Gives the secret of the user's first key, or a link, which are told this once; undefined with a password. */
  readonly createUser: (settings: Settings, user: NewUser) => Promise<string | undefined>;
  readonly listUsers: (settings: Settings) => Promise<readonly ListedUser[]>;
  /** Gives the link, where no password was given. */
  readonly resetLogin: (settings: Settings, reset: LoginResetRequest) => Promise<string | undefined>;
  /** A new password, from whoever types or from a pipe. */
  readonly readPassword: () => Promise<string>;
  readonly print: (text: string) => void;
}

/** Adds `users create`, `users list` and `users reset`. */
export function registerUsers(program: Command, context: UsersContext): void {
  const users = program.command('users').description('people who have an account; Coppice must be running');
  addCreate(users, context);
  addReset(users, context);
  users
    .command('list')
    .description('show who has an account, and how each may log in')
    .action(async () => context.print(formatUsers(await context.listUsers(context.settings()))));
}

interface CreateOptions {
  readonly email: string;
  readonly name: string;
  readonly organization?: string;
  readonly password?: true;
  readonly link?: true;
}

function addCreate(users: Command, { settings, createUser, readPassword, print }: UsersContext): void {
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
    .option('--password', 'instead of a key: ask for a password, or read a line of standard input')
    .option('--link', 'instead of a key: show a link with which the user sets a password, once, within a day')
    .action(async ({ password, link, ...user }: CreateOptions) => {
      const access = password ? { password: await readPassword() } : link ? 'link' : 'key';
      const shown = await createUser(settings(), { ...user, access });
      print(shown === undefined ? `${user.email} can log in.\n` : `${shown}\n`);
    });
}

interface ResetOptions {
  readonly email: string;
  readonly password?: true;
  readonly dropSecondFactor?: true;
}

function addReset(users: Command, { settings, resetLogin, readPassword, print }: UsersContext): void {
  users
    .command('reset')
    .description(
      'log a user out everywhere, and show a link with which the user sets a password, once, within a day; alone on standard output',
    )
    .requiredOption('--email <address>', "the user's address", readEmail)
    .option('--password', 'instead of a link: ask for a new password, or read a line of standard input')
    .option('--drop-second-factor', 'ask for no codes any more until the user wants that again')
    .action(async ({ email, password, dropSecondFactor }: ResetOptions) => {
      const reset = { email, drop_second_factor: dropSecondFactor === true };
      const link = await resetLogin(settings(), { ...reset, password: password ? await readPassword() : undefined });
      print(link === undefined ? `${email} has a new password, and is logged out.\n` : `${link}\n`);
    });
}

function readName(text: string): string {
  const problem = nameProblem(text, LIMITS.short_name_characters);
  if (problem) throw new InvalidArgumentError(`A name ${problem}.`);
  return text;
}

function formatUsers(users: readonly ListedUser[]): string {
  const width = Math.max(...users.map(({ email }) => email.length));
  const lines = users.map(({ email, name, created_at, has_password, two_factor_enabled, sessions }) =>
    [
      email.padEnd(width),
      created_at.toISOString().slice(0, 10),
      (has_password ? (two_factor_enabled ? 'password and code' : 'password') : 'no password').padEnd(17),
      `${sessions} logged in`,
      name,
    ].join('  '),
  );
  return lines.map((line) => `${line.trimEnd()}\n`).join('');
}
