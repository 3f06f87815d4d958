import { type Insertable, sql } from 'kysely';
import { CoppiceError } from '../domain/errors.ts';
import type { BranchId, ProjectId } from '../domain/ids.ts';
import type { MaskingRule } from '../domain/masking/masking-rule.ts';
import type { Store, StoreTransaction } from './connection.ts';
import type { BranchMaskingRow, BranchMaskingsTable } from './schema.ts';

/** What makes a branch an anonymized one: its rules, and how far its masking is. */

export type MaskingRow = BranchMaskingRow;

/** With the name of whoever asked for the last masking. */
export interface MaskingView extends MaskingRow {
  readonly asker: string | null;
}

/** Undefined for a branch that is not anonymized. */
export function findMasking(store: Store | StoreTransaction, branch_id: BranchId): Promise<MaskingView | undefined> {
  return store
    .selectFrom('branch_maskings')
    .leftJoin('users', 'users.id', 'branch_maskings.asked_by')
    .selectAll('branch_maskings')
    .select(sql<string | null>`coalesce(nullif(users.name, ''), users.email)`.as('asker'))
    .where('branch_id', '=', branch_id)
    .executeTakeFirst();
}

export async function insertMasking(
  trx: StoreTransaction,
  masking: Pick<Insertable<BranchMaskingsTable>, 'branch_id' | 'project_id' | 'asked_by' | 'asked_at'> & {
    readonly rules: readonly MaskingRule[];
  },
): Promise<void> {
  await trx
    .insertInto('branch_maskings')
    .values({ ...masking, rules: JSON.stringify(masking.rules) })
    .execute();
}

/** Makes these the rules of a branch, instead of those that it had. They hold from the next masking on. */
export async function updateMaskingRules(
  trx: StoreTransaction,
  branch_id: BranchId,
  rules: readonly MaskingRule[],
): Promise<void> {
  await trx
    .updateTable('branch_maskings')
    .set({ rules: JSON.stringify(rules), updated_at: sql<Date>`clock_timestamp()` })
    .where('branch_id', '=', branch_id)
    .execute();
}

/** Writes that somebody asked for the masking; what came of an earlier one is forgotten. */
export async function askForMasking(
  trx: StoreTransaction,
  branch_id: BranchId,
  asked_by: string | null,
): Promise<void> {
  await trx
    .updateTable('branch_maskings')
    .set({
      asked_at: sql<Date>`clock_timestamp()`,
      ...{ asked_by, completed_at: null, failed_at: null, error: null, masked_columns: null },
      updated_at: sql<Date>`clock_timestamp()`,
    })
    .where('branch_id', '=', branch_id)
    .execute();
}

/** The copy that is masked stands. */
export async function observeMaskingCopied(store: Store, branch_id: BranchId): Promise<void> {
  await store
    .updateTable('branch_maskings')
    .set({ copied_at: sql<Date>`clock_timestamp()`, updated_at: sql<Date>`clock_timestamp()` })
    .where('branch_id', '=', branch_id)
    .execute();
}

export async function observeMasked(trx: StoreTransaction, branch_id: BranchId, masked_columns: number): Promise<void> {
  await trx
    .updateTable('branch_maskings')
    .set({
      completed_at: sql<Date>`clock_timestamp()`,
      ...{ masked_columns, failed_at: null, error: null },
      updated_at: sql<Date>`clock_timestamp()`,
    })
    .where('branch_id', '=', branch_id)
    .execute();
}

/** Nothing happens to a branch that is not anonymized. */
export async function observeMaskingFailed(trx: StoreTransaction, branch_id: BranchId, error: string): Promise<void> {
  await trx
    .updateTable('branch_maskings')
    .set({ failed_at: sql<Date>`clock_timestamp()`, error, updated_at: sql<Date>`clock_timestamp()` })
    .where('branch_id', '=', branch_id)
    .where('completed_at', 'is', null)
    .execute();
}

/**
 * Throws where one of the timelines, or of those that branches are at, is to be that of an anonymized branch and nobody has
 * masked it yet.
 */
export async function refusePrivate(
  trx: StoreTransaction,
  project_id: ProjectId,
  { timeline_ids, branch_ids }: { readonly timeline_ids: readonly string[]; readonly branch_ids: readonly string[] },
): Promise<void> {
  const row = await trx
    .selectFrom('branch_maskings')
    .innerJoin('branches', 'branches.id', 'branch_maskings.branch_id')
    .innerJoin('timelines', 'timelines.id', 'branches.timeline_id')
    .selectAll('branch_maskings')
    .where('branch_maskings.project_id', '=', project_id)
    .where('timelines.ready_at', 'is', null)
    // One that is being restored to its own past, which is masked, too.
    .where('branch_maskings.state', '<>', 'anonymized')
    .where(sql<boolean>`(timelines.id = any(${timeline_ids}::uuid[]) or branches.id = any(${branch_ids}::text[]))`)
    .executeTakeFirst();
  if (row) throw privateBranch(row);
}

/** Why nobody may use an anonymized branch that is not there yet. */
export function privateBranch({ branch_id: id, state }: Pick<MaskingRow, 'branch_id' | 'state'>): CoppiceError {
  return state === 'anonymizing'
    ? new CoppiceError('branch_anonymizing', { id })
    : new CoppiceError('branch_private', { id, state });
}
