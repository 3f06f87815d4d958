import { type AddressList, addressList, isPrivateAddress } from '../domain/address-rules.ts';
import type { AccessRules } from './contract.ts';
import { addressOf } from './peer.ts';
import { refusals } from './refusal.ts';

/** Entries of a directory are kept, so a list is read once. */
const lists = new WeakMap<readonly string[], AddressList>();

function listOf(rules: readonly string[]): AddressList {
  const known = lists.get(rules);
  if (known) return known;
  const read = addressList(rules);
  lists.set(rules, read);
  return read;
}

/**
 * Lets nobody pass who comes from where the project wants nobody from. Both rules hold where both are given. Throws a
 * Refusal; to be asked only once a client has proved who it is, since the answer tells that the endpoint exists.
 *
 * @param peer address and port
 */
export function checkAddress(peer: string | undefined, rules: AccessRules | undefined): void {
  if (!rules) return;
  const address = addressOf(peer) ?? 'unknown';
  if (rules.private_only && !isPrivateAddress(address)) throw refusals.networkBlocked(address);
  if (rules.allowed_ips && !listOf(rules.allowed_ips)(address)) throw refusals.addressNotAllowed(address);
}
