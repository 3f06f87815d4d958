import { AsyncLocalStorage } from 'node:async_hooks';
import type { UserId } from '../../domain/ids.ts';
import type { Attribution } from '../../store/attributed.ts';

/** On whose behalf the library works that people log in with. */
interface Acting {
  /** What its changes are in the audit log as; undefined where they are not noted. */
  readonly attribution: Attribution | undefined;
  /** Whose second factor is asked for, once that is known. */
  person?: UserId;
}

/** The request that is being answered: the library has one database for all of them. */
export const acting = new AsyncLocalStorage<Acting>();
