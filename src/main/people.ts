import { createUser } from '../actions/create-user.ts';
import { linkUrl, resetLogin } from '../actions/reset-login.ts';
import type { ListedUser, LoginResetRequest, NewUser } from '../cli/users.ts';
import { publicUrl } from '../domain/public-url.ts';
import type { Settings } from '../domain/settings.ts';
import { listUsers as readUsers } from '../store/users.ts';
import { onCommand, withStore } from './keys.ts';

const KEY_NAME = 'first';

/** Makes a user of a running Coppice. Gives what the user gets to begin with: the secret of a key, or a link. */
export function makeUser(settings: Settings, { access, ...user }: NewUser): Promise<string | undefined> {
  return withStore(settings, async (context) => {
    const first = access === 'key' ? { key_name: KEY_NAME } : access === 'link' ? { link: true as const } : access;
    const made = await createUser(onCommand(context, 'user.create'), { ...user, ...first });
    return made.link_token === undefined ? made.secret : linkUrl(publicUrl(settings), made.link_token);
  });
}

/** Who has an account on a running Coppice, oldest first. */
export const listUsers = (settings: Settings): Promise<ListedUser[]> =>
  withStore(settings, ({ store }) => readUsers(store));

/** Lets a user of a running Coppice in again. Gives a link, where no password is given. */
export function resetUser(
  settings: Settings,
  { email, password, drop_second_factor }: LoginResetRequest,
): Promise<string | undefined> {
  return withStore(settings, async (context) => {
    const way = password === undefined ? { link: true as const } : { password };
    const { token } = await resetLogin(onCommand(context, 'user.reset_login'), email, { ...way, drop_second_factor });
    return token && linkUrl(publicUrl(settings), token);
  });
}
