import type { Duplex } from 'node:stream';
import { LIMITS } from '../domain/limits.ts';
import type { ComputeRef } from '../drivers/compute/contract.ts';
import type { VolumeRef } from '../drivers/storage/contract.ts';
import { giveIdentity } from '../postgres/control-file.ts';
import { copySchemas, ownersIn, type RowsToCopy, readContents, type ServerContents } from '../postgres/copy-schemas.ts';
import { type ObservedDatabase, readDatabases } from '../postgres/databases.ts';
import { letReaderSeeRows } from '../postgres/masked-rows.ts';
import { type ObservedRole, readRoles } from '../postgres/roles.ts';
import type { ProjectRow, TimelineRow } from '../store/schema.ts';
import { distributionOf } from './compute-spec.ts';
import type { EngineContext } from './context.ts';
import { schemaSourceId, startQuietServer } from './schema-source.ts';
import { sessionStream, sessions } from './sessions.ts';
import { volumeOwner } from './volume-owner.ts';

interface NewBranch {
  readonly timeline: TimelineRow;
  readonly project: ProjectRow;
  readonly signal: AbortSignal;
}

/** A volume that nothing of the source's is in: a copy of the template that new projects begin with, with an identity of its own. */
export async function cloneTemplate(ctx: EngineContext, { timeline, project, signal }: NewBranch): Promise<VolumeRef> {
  const template = await ctx.template(timeline.distribution_id);
  signal.throwIfAborted();
  const owner = volumeOwner(ctx, project);
  const prepare = async (path: string) => {
    await giveIdentity(path);
  };
  return ctx.storage.ensureCloned(template, timeline.id, { owner, signal, prepare });
}

/** Where rows are taken from: the server of the copy, which nobody else reaches, and what it holds. */
export interface RowsSource {
  readonly dial: () => Promise<Duplex>;
  readonly contents: ServerContents;
}

/**
 * Gives the volume the roles, databases and schemas of the copy of its source that `create_branch` has made, and the rows
 * that `rowsOf` fills in. Nobody reaches either server.
 * @returns what the new server holds
 * @throws SchemaUnreadable, RestoreRefused, and what the rows throw
 */
export async function fillFromSource(
  ctx: EngineContext,
  { timeline, project, volume, source, signal }: NewBranch & { volume: VolumeRef; source: VolumeRef },
  rowsOf?: (from: RowsSource) => RowsToCopy,
): Promise<{ roles: ObservedRole[]; databases: ObservedDatabase[] }> {
  const copied = { ...timeline, id: schemaSourceId(timeline.id) };
  const from = await startQuietServer(ctx, { timeline: copied, project, volume: source, signal });
  const dial = (ref: ComputeRef) => () => sessionStream(ctx, ref, signal);
  // As an attempt that was killed may have left it: a reader that is shown more than others is nobody's to take over.
  if (rowsOf) await letReaderSeeRows(dial(from), false);
  const contents = await readContents(dial(from));
  if (rowsOf) await letReaderSeeRows(dial(from), true);
  const rows = rowsOf?.({ dial: dial(from), contents });
  await rows?.check();
  const to = await startQuietServer(ctx, { timeline, project, volume, enter_as: ownersIn(contents), signal });
  const { major } = distributionOf(ctx, timeline.distribution_id);
  await copySchemas(dial(from), dial(to), { contents, major, limit_bytes: LIMITS.schema_bytes, rows, signal });
  await using postgres = await sessions(ctx, to, signal)('postgres');
  const seen = { roles: await readRoles(postgres), databases: await readDatabases(postgres) };
  await ctx.compute.ensureStopped(to, 'staged');
  await ctx.compute.ensureRemoved(to);
  return seen;
}
