import { LIMITS } from '../domain/limits.ts';
import { findBranchIdByName } from './branches.ts';
import type { StoreTransaction } from './connection.ts';

/** A name that no branch of the project has: `base (word)`, or `base (word 2)` and so on where that is taken. */
export async function freeBranchName(
  trx: StoreTransaction,
  project_id: string,
  base: string,
  word: string,
): Promise<string> {
  for (let number = 1; ; number++) {
    const suffix = number === 1 ? ` (${word})` : ` (${word} ${number})`;
    const room = LIMITS.name_characters - suffix.length;
    const name = [...base].slice(0, room).join('') + suffix;
    if (!(await findBranchIdByName(trx, project_id, name))) return name;
  }
}
