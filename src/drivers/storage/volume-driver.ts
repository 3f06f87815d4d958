import { chmod, lchown, lstat, mkdir, readdir, rename, rmdir } from 'node:fs/promises';
import type {
  CloneOptions,
  StorageCapabilities,
  StorageDriver,
  VolumeOwner,
  VolumeRef,
  VolumeSize,
} from './contract.ts';
import { syncDirectory } from './durable.ts';
import { idOfName, type VolumePaths, volumePaths, volumesDirectory } from './layout.ts';
import { removeTree } from './remove-tree.ts';
import { namingFullDisk, poolState, refuseBelowReserve } from './space.ts';
import { runTreeJob } from './tree-workers.ts';

export interface StorageDriverOptions {
  /** Directory that holds the volumes; made when it is missing. Its parents must let other users pass. */
  readonly root: string;
  /** Below this many free bytes nothing new is made. */
  readonly reserve_bytes: number;
}

/** What a driver does in its own way. Paths are absolute; only we can enter the directory that holds a new volume. */
export interface VolumeMechanics {
  readonly name: string;
  readonly capabilities: StorageCapabilities;
  /** Makes an empty volume. */
  makeEmpty(path: string): Promise<void>;
  /** Copies without owners; `path` does not exist yet. */
  copy(source: string, path: string, selection: Required<TreeOptions>, signal?: AbortSignal): Promise<void>;
  /** Bytes that a clone takes at once. */
  bytesToClone(source: string): Promise<number>;
  /**
   * The volume may get its name: a crash after that finds it whole. `by_hand` is true when anything in it may have been
   * written; otherwise only what `prepare` changed was, and that is on disk already where `settles_changes` says so.
   */
  makeDurable(path: string, by_hand: boolean): Promise<void>;
  /** Changed files are made durable one by one after `prepare`, since `makeDurable` covers only copied ones. */
  readonly settles_changes: boolean;
  measure(path: string): Promise<VolumeSize>;
}

type TreeOptions = Pick<CloneOptions, 'empty_directories' | 'omit_files'>;

/** What the drivers share: names, order of steps, undo, space. One operation at a time works on an id. */
export async function createVolumeDriver(
  mechanicsOf: (root: string) => Promise<VolumeMechanics>,
  { root, reserve_bytes }: StorageDriverOptions,
): Promise<StorageDriver> {
  const volumes = volumesDirectory(root);
  for (const path of [root, volumes]) {
    // Others may pass, to reach the volume that they own, and may not look around.
    if (await mkdir(path, { recursive: true })) await chmod(path, 0o711);
  }
  const mechanics = await mechanicsOf(root);
  const turns = new Map<string, Promise<unknown>>();
  const refTo = (id: string): VolumeRef => ({ driver: mechanics.name, id });

  function inTurn<T>(id: string, work: () => Promise<T>): Promise<T> {
    const turn = (turns.get(id) ?? Promise.resolve()).then(work, work);
    turns.set(id, turn);
    const forget = () => turns.get(id) === turn && turns.delete(id);
    turn.then(forget, forget);
    return turn;
  }

  /** Makes `paths.final` by way of `make`, which fills `paths.unfinished`; or finds it. */
  function ensureMade(id: string, make: (paths: VolumePaths) => Promise<void>): Promise<VolumeRef> {
    const paths = volumePaths(root, id);
    return inTurn(id, async () => {
      await discard(paths);
      if (!(await exists(paths.final))) await makeVolume(paths, make);
      // Also for one that was found: whoever made it may have been killed before this.
      await syncDirectory(volumes);
      return refTo(id);
    });
  }

  async function makeVolume(paths: VolumePaths, make: (paths: VolumePaths) => Promise<void>): Promise<void> {
    try {
      await mkdir(paths.partial, { mode: 0o700 });
      await make(paths);
      await rename(paths.unfinished, paths.final);
    } catch (error) {
      // Should this fail as well, the rest is listed, and goes with the next call for this id.
      await discard(paths).catch(() => {});
      throw await namingFullDisk(error, root, reserve_bytes);
    }
    // Empty by now; left behind, it goes with the next call.
    await rmdir(paths.partial).catch(() => {});
  }

  /** What was left half-made or half-deleted is gone. */
  async function discard({ partial, unfinished, deleted }: VolumePaths): Promise<void> {
    if (await exists(deleted)) {
      // Whoever still runs as the owner makes nothing new in it.
      await keepToOurselves(deleted);
      await removeTree(deleted);
    }
    if (!(await exists(partial))) return;
    if (await exists(unfinished)) await removeTree(unfinished);
    await rmdir(partial);
  }

  async function settle(
    path: string,
    owner?: VolumeOwner,
    changed_since_ms?: number,
    signal?: AbortSignal,
  ): Promise<void> {
    await keepToOurselves(path);
    await runTreeJob({ kind: 'settle', path, owner, changed_since_ms }, signal);
  }

  return {
    name: mechanics.name,
    capabilities: mechanics.capabilities,

    ensureCreated: (id, fill, owner) =>
      ensureMade(id, async ({ partial, unfinished }) => {
        await refuseBelowReserve(root, reserve_bytes, 0);
        await mechanics.makeEmpty(unfinished);
        await chmod(partial, 0o711);
        await fill(unfinished);
        await settle(unfinished, owner);
        await mechanics.makeDurable(unfinished, true);
      }),

    ensureCloned: (source, id, options = {}) =>
      ensureMade(id, async ({ partial, unfinished }) => {
        const { prepare, signal } = options;
        const from = sourcePath(source);
        const owner = options.owner ?? (await ownerOf(from));
        await refuseBelowReserve(root, reserve_bytes, await mechanics.bytesToClone(from));
        signal?.throwIfAborted();
        await mechanics.copy(from, unfinished, selectionOf(options), signal);
        await keepToOurselves(unfinished);
        // Programs that `prepare` runs under another uid may pass; it alone decides whether they may enter.
        const copied_ms = await stampMode(partial, 0o711);
        await prepare?.(unfinished);
        await settle(unfinished, owner, mechanics.settles_changes && prepare ? copied_ms : undefined, signal);
        await mechanics.makeDurable(unfinished, false);
        signal?.throwIfAborted();
      }),

    ensureDeleted: async (id) => {
      const paths = volumePaths(root, id);
      await inTurn(id, async () => {
        await discard(paths);
        if (await exists(paths.final)) {
          await rename(paths.final, paths.deleted);
          await discard(paths);
        }
        await syncDirectory(volumes);
      });
    },

    find: async (id) => ((await exists(volumePaths(root, id).final)) ? refTo(id) : undefined),

    list: async () => {
      const ids = (await readdir(volumes)).map(idOfName).filter((id) => id !== undefined);
      return [...new Set(ids)].sort();
    },

    path: sourcePath,
    measure: (volume) => mechanics.measure(sourcePath(volume)),
    pool: () => poolState(root, reserve_bytes),
  };

  function sourcePath({ driver, id }: VolumeRef): string {
    if (driver !== mechanics.name) throw new Error(`volume ${id} belongs to the storage driver "${driver}"`);
    return volumePaths(root, id).final;
  }
}

function selectionOf({ empty_directories = [], omit_files = [] }: TreeOptions): Required<TreeOptions> {
  for (const path of [...empty_directories, ...omit_files]) {
    const steps = path.split('/');
    if (steps.some((step) => step === '' || step === '.' || step === '..')) {
      throw new Error(`${JSON.stringify(path)} is not a path below a volume`);
    }
  }
  return { empty_directories, omit_files };
}

/** The top directory is ours alone, whoever owns what is in it: while a volume is unfinished, and while it is deleted. */
async function keepToOurselves(path: string): Promise<void> {
  if (!(await lstat(path)).isDirectory()) return;
  await chmod(path, 0o700);
  if (process.getuid?.() === 0) await lchown(path, 0, 0);
}

/**
 * Sets the mode and returns when that was, by the filesystem's clock: later than what was copied, not later than what
 * `prepare` will change. Done twice, since Linux (6.13) stamps finer than a clock tick only where the last stamp is of
 * this tick and was looked at; on older ones a tick's worth of files counts as changed, which is safe.
 */
async function stampMode(path: string, mode: number): Promise<number> {
  await chmod(path, mode);
  await lstat(path);
  await chmod(path, mode);
  return (await lstat(path)).ctimeMs;
}

async function ownerOf(path: string): Promise<VolumeOwner> {
  const { uid, gid } = await lstat(path);
  return { uid, gid };
}

async function exists(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}
