import { LIMITS } from '../domain/limits.ts';
import { isReservedRole } from '../domain/names.ts';
import { formatVerifier, parseVerifier, type ScramVerifier } from '../domain/scram-verifier.ts';
import {
  authenticationCleartextPassword,
  authenticationSasl,
  authenticationSaslContinue,
  authenticationSaslFinal,
} from '../wire/backend-messages.ts';
import { parsePassword, parseSaslInitialResponse, passwordBody } from '../wire/frontend-messages.ts';
import { type Message, takeMessage } from '../wire/message.ts';
import { parsePrefixedPassword } from '../wire/password-prefix.ts';
import type { ScramKeys } from '../wire/scram.ts';
import { mockVerifier, scramMechanisms, startScram } from '../wire/scram-server.ts';
import type { ByteChannel } from './byte-channel.ts';
import type { BranchEntry, Directory, EndpointEntry, PointText } from './contract.ts';
import { refusals } from './refusal.ts';
import { type BranchRoute, namedRoute, type Route, routeTarget } from './route.ts';
import type { VerifiedPasswords } from './verified-passwords.ts';

/** Who wants in, and what authentication needs to know of the connection. */
export interface Applicant {
  readonly user: string;
  /** Undefined when only the password can tell. */
  readonly route: Route | undefined;
  readonly point: PointText | undefined;
  readonly channelBinding: Buffer | undefined;
  /** The password itself is asked for, even where the route is known. */
  readonly cleartext: boolean;
}

export interface Authenticated {
  readonly route: Route;
  readonly destination: Destination;
  /** Lets us in to the compute in the client's name. */
  readonly keys: ScramKeys;
  /** What its token says, as JSON, where it came with one. */
  readonly claims?: string;
}

/** Where a client may go. Where a branch at a point is, is found out once the client has been let in. */
export type Destination = EndpointEntry | (BranchRoute & BranchEntry);

export interface AuthenticationContext {
  readonly directory: Directory;
  /** Keyed hash of unknown roles; see `mockVerifier`. */
  readonly mock_secret: Buffer;
  /** Bounds the work that cleartext passwords cause. */
  readonly hashing: <T>(work: () => Promise<T>) => Promise<T>;
  readonly passwords: VerifiedPasswords;
}

/** A verifier to hold against a client. Where `allowed` is false the exchange runs to its end and then fails. */
interface Candidate {
  readonly verifier: ScramVerifier;
  readonly allowed: boolean;
}

/**
 * Checks a client against what the directory knows; nothing is woken. Unknown endpoint, unknown role, a role that may
 * not log in, an expired and a wrong password all take the same steps and give the same answer.
 */
export async function authenticate(
  channel: ByteChannel,
  applicant: Applicant,
  context: AuthenticationContext,
): Promise<Authenticated> {
  return applicant.route && !applicant.cleartext
    ? authenticateScram(channel, applicant, applicant.route, context)
    : authenticateCleartext(channel, applicant, context);
}

const takePassword = (channel: ByteChannel): Promise<Message> =>
  channel.take((bytes) => takeMessage(bytes, LIMITS.password_message_bytes));

async function authenticateScram(
  channel: ByteChannel,
  { user, channelBinding }: Applicant,
  route: Route,
  context: AuthenticationContext,
): Promise<Authenticated> {
  const { destination, candidate, refreshed } = await findCandidate(route, user, context);
  channel.write(authenticationSasl(scramMechanisms(channelBinding)));
  const initial = parseSaslInitialResponse(await takePassword(channel));
  if (initial.data === undefined) channel.write(authenticationSaslContinue(''));
  const clientFirst = initial.data ?? passwordBody(await takePassword(channel)).toString('utf8');
  const exchange = startScram(clientFirst, {
    mechanism: initial.mechanism,
    verifier: candidate.verifier,
    channelBinding,
  });
  channel.write(authenticationSaslContinue(exchange.serverFirst));
  const outcome = exchange.finish(passwordBody(await takePassword(channel)).toString('utf8'));
  if (outcome && candidate.allowed && destination) {
    channel.write(authenticationSaslFinal(outcome.serverFinal));
    return { route, destination, keys: outcome.keys };
  }
  // The proof was made for the old verifier's salt, so a newer one can only help the next attempt.
  if (destination && !refreshed) await lookUp(route, user, context, true);
  throw refusals.passwordWrong(user);
}

async function authenticateCleartext(
  channel: ByteChannel,
  { user, route, point }: Applicant,
  context: AuthenticationContext,
): Promise<Authenticated> {
  channel.write(authenticationCleartextPassword());
  const text = parsePassword(await takePassword(channel));
  if (route) return checkPassword({ user, route, password: text }, context);
  const prefixed = parsePrefixedPassword(text);
  if (!prefixed) throw refusals.endpointMissing();
  return checkPassword({ user, route: namedRoute(prefixed.endpoint, point), password: prefixed.password }, context);
}

/** Lets a client in by its password as it is. Throws a Refusal. */
export async function checkPassword(
  { user, route, password }: { readonly user: string; readonly route: Route; readonly password: string },
  context: AuthenticationContext,
): Promise<Authenticated> {
  const { destination, candidate, refreshed } = await findCandidate(route, user, context);
  let keys = await check(password, candidate, context);
  if (!keys && destination && !refreshed) {
    const newer = await lookUp(route, user, context, true);
    if (formatVerifier(newer.verifier) !== formatVerifier(candidate.verifier)) {
      keys = await check(password, newer, context);
    }
  }
  if (!keys || !destination) throw refusals.passwordWrong(user);
  return { route, destination, keys };
}

async function check(
  password: string,
  { verifier, allowed }: Candidate,
  { hashing, passwords }: AuthenticationContext,
): Promise<ScramKeys | undefined> {
  if (verifier.iterations > LIMITS.scram_iterations) return undefined;
  const known = allowed ? passwords.recall(password, verifier) : undefined;
  const keys = known ?? (await hashing(() => passwords.verify(password, verifier)));
  return allowed ? keys : undefined;
}

/** The endpoint or branch and whom to check against; asks the running server once when the role seems unable to log in. */
async function findCandidate(route: Route, user: string, context: AuthenticationContext) {
  const destination = await ask(() => findDestination(route, context.directory));
  const known = await lookUp(route, user, context, false);
  if (known.allowed || !destination) return { destination, candidate: known, refreshed: false };
  return { destination, candidate: await lookUp(route, user, context, true), refreshed: true };
}

export async function findDestination(route: Route, directory: Directory): Promise<Destination | undefined> {
  if (!('branch_id' in route)) return directory.endpoint(route.endpoint_id);
  const branch = await directory.branch(route.branch_id);
  return branch && { ...route, ...branch };
}

async function lookUp(
  route: Route,
  user: string,
  { directory, mock_secret }: AuthenticationContext,
  refresh: boolean,
): Promise<Candidate> {
  const secret = await ask(() =>
    'branch_id' in route
      ? directory.branchRole(route.branch_id, user, { refresh })
      : directory.role(route.endpoint_id, user, { refresh }),
  );
  const verifier = secret?.verifier ? parseVerifier(secret.verifier) : undefined;
  if (!secret || !verifier || isReservedRole(user)) {
    return { verifier: mockVerifier(mock_secret, routeTarget(route), user), allowed: false };
  }
  const expired = secret.valid_until !== null && secret.valid_until.getTime() <= Date.now();
  return { verifier, allowed: secret.can_login && !expired };
}

async function ask<T>(question: () => Promise<T>): Promise<T> {
  try {
    return await question();
  } catch (cause) {
    throw refusals.controlPlane(cause);
  }
}
