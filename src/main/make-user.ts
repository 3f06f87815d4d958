import { createUser } from '../actions/create-user.ts';
import type { NewUser } from '../cli/users.ts';
import type { Settings } from '../domain/settings.ts';
import { onCommand, withStore } from './keys.ts';

const KEY_NAME = 'first';

/** Makes a user of a running Coppice, and gives the secret of the user's first key. */
export function makeUser(settings: Settings, user: NewUser): Promise<string> {
  return withStore(settings, async (context) => {
    const made = await createUser(onCommand(context, 'user.create'), { ...user, key_name: KEY_NAME });
    return made.secret;
  });
}
