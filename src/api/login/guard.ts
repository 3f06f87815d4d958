import { plainAddress } from '../../domain/address-rules.ts';
import { customerNetwork } from '../../domain/customer-network.ts';
import { CoppiceError } from '../../domain/errors.ts';
import { LIMITS } from '../../domain/limits.ts';
import { tokenBuckets } from '../../domain/token-buckets.ts';

/** Counts attempts to log in. Throws `sign_ins_limited` when there were too many. */
export type LoginGuard = (address: string, email: string | undefined) => void;

/**
 * Bounds guesses by the network that they come from, and by network and address: nobody is locked out by what others try
 * elsewhere. Each process counts for itself.
 */
export function createLoginGuard(): LoginGuard {
  const networks = tokenBuckets(
    { burst: LIMITS.sign_ins_per_network_burst, per_second: LIMITS.sign_ins_per_network_per_second },
    LIMITS.guarded_names,
  );
  const people = tokenBuckets(
    { burst: LIMITS.sign_ins_per_person_burst, per_second: LIMITS.sign_ins_per_person_per_second },
    LIMITS.guarded_names,
  );
  return (address, email) => {
    const network = customerNetwork(plainAddress(address) ?? address);
    const taken = networks.take(network);
    const allowed = email === undefined || people.take(`${network} ${email.toLowerCase()}`);
    if (!taken || !allowed) throw new CoppiceError('sign_ins_limited');
  };
}
