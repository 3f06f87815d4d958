import { access } from 'node:fs/promises';
import type pg from 'pg';
import type { ActionContext } from '../actions/context.ts';
import { createApiKey } from '../actions/create-api-key.ts';
import { revokeApiKey } from '../actions/revoke-api-key.ts';
import type { KeyCommands } from '../cli/keys.ts';
import { CoppiceError } from '../domain/errors.ts';
import type { Settings } from '../domain/settings.ts';
import { listPersonalKeys } from '../store/api-keys.ts';
import { attributed } from '../store/attributed.ts';
import { openStore } from '../store/connection.ts';
import { findFirstUser, findUserByEmail } from '../store/users.ts';
import { createLogger } from '../watch/logger.ts';
import { ownConnection } from './own-store.ts';
import { computeDriverOf, computesDirectory } from './parts.ts';
import { StartError } from './start-error.ts';

/**
 * Lets a command work on the personal keys of the user with that address, or of the first user. Coppice must run, since its
 * database does only then.
 */
export async function withKeys<T>(
  settings: Settings,
  email: string | undefined,
  use: (keys: KeyCommands) => Promise<T>,
): Promise<T> {
  return withStore(settings, async (context) => {
    const user = await (email === undefined ? findFirstUser(context.store) : findUserByEmail(context.store, email));
    if (!user && email !== undefined) throw new CoppiceError('not_found', { noun: `user with the address ${email}` });
    if (!user) throw new StartError(`Coppice on ${settings.data_dir} has no user yet: let it start once`);
    return use({
      create: async (name, { read_only }) => {
        const asked = { user_id: user.id, name, read_only };
        const { key, secret } = await createApiKey(onCommand(context, 'api_key.create'), asked);
        return { id: key.id, secret };
      },
      list: () => listPersonalKeys(context.store, user.id),
      revoke: async (id) => {
        await revokeApiKey(onCommand(context, 'api_key.delete'), { user_id: user.id, key_id: id });
      },
    });
  });
}

/** What a command changes is in the audit log as such. */
export function onCommand({ store }: Pick<ActionContext, 'store'>, action: string): Pick<ActionContext, 'store'> {
  return { store: attributed(store, { actor_kind: 'command_line', action }) };
}

/** Opens the database of a running Coppice. Throws StartError when none runs on the data directory. */
export async function withStore<T>(
  settings: Settings,
  use: (context: Pick<ActionContext, 'store'>) => Promise<T>,
): Promise<T> {
  const unanswered = ({ code, message }: NodeJS.ErrnoException) =>
    new StartError(
      `no Coppice answers on ${settings.data_dir} (${code ?? message}): start it with npm start, or name its directory in COPPICE_DATA_DIR`,
    );
  const connection = settings.database_url
    ? { connectionString: settings.database_url }
    : await ownConnectionOf(settings.data_dir).catch((error) => {
        throw unanswered(error);
      });
  const opened = openStore({
    connection,
    application_name: 'coppice command',
    connections_max: 2,
    durable: true,
    onError: () => undefined,
  });
  try {
    await opened.pool.query('select from coppice.installation').catch((error) => {
      throw unanswered(error);
    });
    return await use({ store: opened.store });
  } finally {
    await opened.close();
  }
}

/** Throws where nothing was ever started: the driver would make what is missing. */
async function ownConnectionOf(data_directory: string): Promise<pg.ClientConfig> {
  await access(computesDirectory(data_directory));
  return ownConnection(computeDriverOf(data_directory, createLogger({ level: 'error' })));
}
