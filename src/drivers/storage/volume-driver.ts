import { chmod, lchown, lstat, mkdir, readdir, rename, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import type {
  CloneOptions,
  PoolState,
  StorageCapabilities,
  StorageDriver,
  VolumeEntry,
  VolumeOwner,
  VolumeRef,
  VolumeSize,
} from './contract.ts';
import { syncDirectory } from './durable.ts';
import { idOfName, type VolumePaths, volumePaths, volumesDirectory } from './layout.ts';
import { readBelow } from './read-below.ts';
import { removeTree } from './remove-tree.ts';
import { namingFullDisk, poolState, refuseBelowReserve } from './space.ts';
import { runTreeJob, warmTreeWorkers } from './tree-workers.ts';

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

const DISCARD_ATTEMPTS_MAX = 5;

/** A storage driver with mechanics of its own, on a root that is made when it is missing. */
export async function createVolumeDriver(
  mechanicsOf: (root: string) => Promise<VolumeMechanics>,
  options: StorageDriverOptions,
): Promise<StorageDriver> {
  for (const path of [options.root, volumesDirectory(options.root)]) {
    // Others may pass, to reach the volume that they own, and may not look around.
    if (await mkdir(path, { recursive: true })) await chmod(path, 0o711);
  }
  warmTreeWorkers();
  return new VolumeDriver(await mechanicsOf(options.root), options);
}

/** What the drivers share: names, order of steps, undo, space. One operation at a time works on an id. */
class VolumeDriver implements StorageDriver {
  readonly #mechanics: VolumeMechanics;
  readonly #root: string;
  readonly #reserve_bytes: number;
  /** The last call for each id that has one. */
  readonly #turns = new Map<string, Promise<unknown>>();

  constructor(mechanics: VolumeMechanics, { root, reserve_bytes }: StorageDriverOptions) {
    this.#mechanics = mechanics;
    this.#root = root;
    this.#reserve_bytes = reserve_bytes;
  }

  get name(): string {
    return this.#mechanics.name;
  }

  get capabilities(): StorageCapabilities {
    return this.#mechanics.capabilities;
  }

  ensureCreated(id: string, fill: (path: string) => Promise<void>, owner?: VolumeOwner): Promise<VolumeRef> {
    return this.#ensureMade(id, async ({ partial, unfinished }) => {
      await refuseBelowReserve(this.#root, this.#reserve_bytes, 0);
      await this.#mechanics.makeEmpty(unfinished);
      await chmod(partial, 0o711);
      await fill(unfinished);
      await settle(unfinished, owner);
      await this.#mechanics.makeDurable(unfinished, true);
    });
  }

  ensureCloned(source: VolumeRef, id: string, options: CloneOptions = {}): Promise<VolumeRef> {
    return this.#ensureMade(id, async ({ partial, unfinished }) => {
      const { prepare, signal } = options;
      const from = this.path(source);
      const owner = options.owner ?? (await ownerOf(from));
      await refuseBelowReserve(this.#root, this.#reserve_bytes, await this.#mechanics.bytesToClone(from));
      signal?.throwIfAborted();
      await this.#mechanics.copy(from, unfinished, selectionOf(options), signal);
      await keepToOurselves(unfinished);
      // Programs that `prepare` runs under another uid may pass; it alone decides whether they may enter.
      const copied_ms = await stampMode(partial, 0o711);
      await prepare?.(unfinished);
      await settle(unfinished, owner, this.#mechanics.settles_changes && prepare ? copied_ms : undefined, signal);
      await this.#mechanics.makeDurable(unfinished, false);
      signal?.throwIfAborted();
    });
  }

  async ensureDeleted(id: string): Promise<void> {
    const paths = volumePaths(this.#root, id);
    await this.#inTurn(id, async () => {
      await discard(paths);
      if (await exists(paths.final)) {
        await rename(paths.final, paths.deleted);
        await discard(paths);
      }
      await syncDirectory(volumesDirectory(this.#root));
    });
  }

  async find(id: string): Promise<VolumeRef | undefined> {
    return (await exists(volumePaths(this.#root, id).final)) ? { driver: this.name, id } : undefined;
  }

  async list(): Promise<string[]> {
    const ids = (await readdir(volumesDirectory(this.#root))).map(idOfName).filter((id) => id !== undefined);
    return [...new Set(ids)].sort();
  }

  path({ driver, id }: VolumeRef): string {
    if (driver !== this.name) throw new Error(`volume ${id} belongs to the storage driver "${driver}"`);
    return volumePaths(this.#root, id).final;
  }

  async measure(volume: VolumeRef): Promise<VolumeSize> {
    return this.#mechanics.measure(this.path(volume));
  }

  entries(volume: VolumeRef): Promise<VolumeEntry[]> {
    return runTreeJob({ kind: 'list', path: this.path(volume) });
  }

  async read(volume: VolumeRef, path: string, offset: number, bytes: number): Promise<Buffer> {
    return readBelow(this.path(volume), path, offset, bytes);
  }

  pool(): Promise<PoolState> {
    return poolState(this.#root, this.#reserve_bytes);
  }

  /** Makes `paths.final` by way of `make`, which fills `paths.unfinished`; or finds it. */
  async #ensureMade(id: string, make: (paths: VolumePaths) => Promise<void>): Promise<VolumeRef> {
    const paths = volumePaths(this.#root, id);
    return this.#inTurn(id, async () => {
      await discard(paths);
      if (!(await exists(paths.final))) await this.#make(paths, make);
      // Also for one that was found: whoever made it may have been killed before this.
      await syncDirectory(volumesDirectory(this.#root));
      return { driver: this.name, id };
    });
  }

  async #make(paths: VolumePaths, make: (paths: VolumePaths) => Promise<void>): Promise<void> {
    try {
      await mkdir(paths.partial, { mode: 0o700, recursive: true });
      await make(paths);
      await rename(paths.unfinished, paths.final);
    } catch (error) {
      // Should this fail as well, the rest is listed, and goes with the next call for this id.
      await discard(paths).catch(() => {});
      throw await namingFullDisk(error, this.#root, this.#reserve_bytes);
    }
    // Left behind, it goes with the next call.
    await rmdir(paths.partial).catch(() => {});
  }

  #inTurn<T>(id: string, work: () => Promise<T>): Promise<T> {
    const turn = (this.#turns.get(id) ?? Promise.resolve()).then(work, work);
    this.#turns.set(id, turn);
    const forget = () => this.#turns.get(id) === turn && this.#turns.delete(id);
    turn.then(forget, forget);
    return turn;
  }
}

/** What was left half-made or half-deleted is gone. */
async function discard({ partial, deleted }: VolumePaths): Promise<void> {
  if (await exists(deleted)) {
    // Whoever still runs as the owner makes nothing new in it.
    await keepToOurselves(deleted);
    await removeTree(deleted);
  }
  for (let attempt = 1; await exists(partial); attempt++) {
    for (const name of await readdir(partial)) await removeTree(join(partial, name));
    await rmdir(partial).catch((error: NodeJS.ErrnoException) => {
      // A command of a killed Coppice made its copy just now.
      if (error.code !== 'ENOTEMPTY' || attempt === DISCARD_ATTEMPTS_MAX) throw error;
    });
  }
}

/** Last steps on an unfinished volume's files. */
async function settle(
  path: string,
  owner?: VolumeOwner,
  changed_since_ms?: number,
  signal?: AbortSignal,
): Promise<void> {
  await keepToOurselves(path);
  await runTreeJob({ kind: 'settle', path, owner, changed_since_ms }, signal);
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
