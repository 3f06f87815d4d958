import type { EndpointId } from '../domain/ids.ts';
import { LIMITS } from '../domain/limits.ts';
import type { BackendKey } from '../wire/backend-messages.ts';
import { cancelRequest } from '../wire/frontend-messages.ts';
import { checkAddress } from './allow-list.ts';
import type { AccessRules, Waker } from './contract.ts';

/** What a client's cancel key stands for. */
export interface CancelTarget {
  /** From where clients may come at this moment. */
  access(): Promise<AccessRules | undefined>;
  /** Resolves once the request has been passed on, or there was nothing to cancel. */
  cancel(): Promise<void>;
}

/** A session of a compute. */
export interface ComputeSessionName {
  readonly endpoint_id: EndpointId;
  /** The key that the compute gave. */
  readonly key: BackendKey;
}

/** Cancels what a key stands for, if the request comes from where clients may come from. By the protocol nobody is told whether. */
export async function cancelFrom(peer: string | undefined, target: CancelTarget): Promise<void> {
  try {
    checkAddress(peer, await target.access());
  } catch {
    return;
  }
  await target.cancel();
}

/**
 * Asks a compute to cancel what a session of it does. Resolves once the compute has taken the request, or when it could
 * not be asked: by the protocol nobody is told which.
 */
export async function cancelQuery({ endpoint_id, key }: ComputeSessionName, waker: Waker): Promise<void> {
  const stream = await waker.dial(endpoint_id).catch(() => undefined);
  if (!stream) return;
  await new Promise<void>((resolve) => {
    const timer = setTimeout(() => stream.destroy(), LIMITS.cancel_timeout_ms);
    stream.on('error', () => undefined);
    stream.once('close', () => {
      clearTimeout(timer);
      resolve();
    });
    // The server closes when it has sent the signal, which is what a client waits for.
    stream.once('end', () => stream.destroy());
    stream.resume();
    stream.write(cancelRequest(key));
  });
}
