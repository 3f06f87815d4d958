import { setTimeout as delay } from 'node:timers/promises';
import { wakeEndpoint } from '../actions/wake-endpoint.ts';
import type { ExportReport, ExportRequest } from '../cli/export.ts';
import type { Settings } from '../domain/settings.ts';
import { ExportRefused, writeExport } from '../engine/export/write-export.ts';
import type { Store } from '../store/connection.ts';
import { type ExportedBranch, findBranchesToExport, findExport, withExport } from '../store/exports.ts';
import type { ExportBase } from '../store/schema.ts';
import { withStore } from './keys.ts';
import { objectsOf, openObjects } from './open-objects.ts';
import { archiveOf, storageOf } from './parts.ts';
import { StartError } from './start-error.ts';

const LOOK_INTERVAL_MS = 250;
const WAKE_INTERVAL_MS = 5_000;
/** A branch that is brought back from object storage first takes its time. */
const SERVER_WAIT_MAX_MS = 900_000;
/** On storage that cannot share blocks every byte is copied. */
const BASE_WAIT_MAX_MS = 4 * 3_600_000;

/**
 * Copies a branch of a running Coppice to a place in barman's layout. The engine makes the copy of the volume that is read
 * here; it goes when this ends, however it ends. Throws StartError and ObjectError with a sentence for who typed it.
 */
export async function exportBranch(
  settings: Settings,
  request: ExportRequest,
  told: (progress: string) => void,
): Promise<ExportReport> {
  const objects = await openObjects(request.place, settings);
  return withStore(settings, async ({ store }) => {
    const branch = await findBranch(store, request);
    const server_name = request.server_name ?? (branch.is_default ? branch.project_id : branch.id);
    told(`looking at ${objects.place}`);
    await objects.check();
    const target = `${objects.place} ${server_name}`;
    const report = await withExport(store, { branch_id: branch.id, target }, async (id) => {
      told(`copying ${branch.name}`);
      const base = await waitForBase(store, id, branch);
      const { driver: storage } = await storageOf(settings.data_dir, {
        storage: base.volume.driver as Settings['storage'],
      });
      const archive = await archiveOf(settings.data_dir, await objectsOf(settings));
      const written = await writeExport({ storage, archive, base }, { objects, server_name }, (bytes) =>
        told(`sending ${branch.name}: ${Math.floor(bytes / 1024 ** 2)} MiB`),
      ).catch((error) => {
        throw error instanceof ExportRefused ? new StartError(error.message) : error;
      });
      const { server_version, has_superuser } = base;
      const { name: branch_name } = branch;
      const { place } = objects;
      return { ...written, place, server_name, branch_name, server_version, lacks_superuser: !has_superuser };
    });
    if (report) return report;
    throw new StartError(`another export writes to ${objects.place} as ${server_name}: wait for its end`);
  });
}

async function findBranch(
  store: Store,
  { project, branch }: ExportRequest,
): Promise<ExportedBranch & { endpoint_id: string }> {
  const [found, ...others] = await findBranchesToExport(store, { project, branch });
  const what = branch === undefined ? `a project "${project}"` : `a branch "${branch}" of a project "${project}"`;
  if (!found) throw new StartError(`there is no such thing as ${what}`);
  if (others.length > 0) throw new StartError(`several projects are called "${project}": give the id of one`);
  const { endpoint_id } = found;
  if (!endpoint_id) throw new StartError(`branch ${found.name} has no endpoint to start: make a read_write one first`);
  return { ...found, endpoint_id };
}

/** Wakes the branch, since a copy is made by its server, and waits for the engine to make one. */
async function waitForBase(
  store: Store,
  id: string,
  branch: { name: string; endpoint_id: string },
): Promise<ExportBase> {
  const asked_at = Date.now();
  let woken_at = 0;
  for (;;) {
    const row = await findExport(store, id);
    if (!row) throw new StartError('the connection to our own database broke: export it again');
    if (row.error !== null) throw new StartError(`branch ${branch.name} could not be copied: ${row.error}`);
    if (row.base) return row.base;
    const waited_ms = Date.now() - asked_at;
    if (waited_ms > (row.begun_at ? BASE_WAIT_MAX_MS : SERVER_WAIT_MAX_MS)) {
      throw new StartError(`branch ${branch.name} was not copied in time: npx coppice status tells more`);
    }
    if (Date.now() - woken_at > WAKE_INTERVAL_MS) {
      woken_at = Date.now();
      await wakeEndpoint({ store }, branch.endpoint_id);
    }
    await delay(LOOK_INTERVAL_MS);
  }
}
