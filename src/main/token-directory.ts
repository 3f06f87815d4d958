import { openRolePassword } from '../actions/role-secret.ts';
import type { Vault } from '../domain/credentials.ts';
import type { EndpointId } from '../domain/ids.ts';
import { LIMITS } from '../domain/limits.ts';
import { parseVerifier } from '../domain/scram-verifier.ts';
import type { TokenDirectory } from '../gateway/contract.ts';
import type { Change } from '../store/changes.ts';
import type { Store } from '../store/connection.ts';
import { findJwksOfEndpoint } from '../store/project-jwks.ts';
import { findLoginRole, type LoginRole } from '../store/token-roles.ts';
import { keysFromPassword } from '../wire/cleartext-password.ts';
import type { ScramKeys } from '../wire/scram.ts';
import { remember } from './remember.ts';

export interface CachedTokenDirectory extends TokenDirectory {
  /** Forgets what a change makes stale. */
  hear(change: Change): void;
  /** Forgets everything: changes may have been missed. */
  forget(): void;
}

/**
 * Whose tokens are taken, and what lets those who have one in: the keys that the stored password of their role gives. Kept
 * in memory until a change is announced, as the directory of endpoints is.
 */
export function createTokenDirectory(
  store: Store,
  vault: Vault,
  { isFresh }: { isFresh: () => boolean },
): CachedTokenDirectory {
  const issuers = new Map<EndpointId, Promise<Awaited<ReturnType<typeof findJwksOfEndpoint>> | undefined>>();
  /** By endpoint and role, in one text. */
  const keys = new Map<string, Promise<TimedKeys | undefined>>();
  const forget = () => {
    issuers.clear();
    keys.clear();
  };
  return {
    issuers: async (id, role) => {
      const load = async () => {
        const found = await findJwksOfEndpoint(store, id);
        return found.length > 0 ? found : undefined;
      };
      const known = (await remember(issuers, id, load, isFresh)) ?? [];
      return known
        .filter(({ role_names }) => role_names.includes(role))
        .map(({ jwks_url, jwt_audience }) => ({ jwks_url, audience: jwt_audience ?? undefined }));
    },
    keys: async (id, role) => {
      const load = async () => {
        const found = await findLoginRole(store, id, role);
        return found && deriveKeys(vault, role, found);
      };
      const known = await remember(keys, `${id} ${role}`, load, isFresh);
      const expired = known?.valid_until && known.valid_until.getTime() <= Date.now();
      return expired ? undefined : known?.keys;
    },
    // Whose role, branch or project it was is not looked up: all of this is had again at the price of a question.
    hear: ({ noun }) => {
      if (noun === 'access') issuers.clear();
      if (noun === 'endpoint') forget();
      if (noun === 'branch') keys.clear();
    },
    forget,
  };
}

interface TimedKeys {
  readonly keys: ScramKeys;
  readonly valid_until: Date | null;
}

/** Undefined for a role that may not log in, and one whose password is not stored or not yet that of the server. */
async function deriveKeys(
  vault: Vault,
  name: string,
  { branch_id, verifier, sealed_password, can_login, valid_until }: LoginRole,
): Promise<TimedKeys | undefined> {
  const parsed = verifier === null ? undefined : parseVerifier(verifier);
  const password = openRolePassword(vault, { branch_id, name, sealed_password });
  if (!can_login || password === undefined || !parsed || parsed.iterations > LIMITS.scram_iterations) return undefined;
  const keys = await keysFromPassword(password, parsed);
  return keys && { keys, valid_until };
}
