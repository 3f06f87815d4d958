import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { removeDataDirectory, startCoppice, type TestCoppice } from './coppice.ts';

const REACHED_WITHIN_MS = 60_000;

/** Coppices on one data directory, one after the other, each but the last killed in the middle of something. */
export interface KilledCoppice {
  /** The one that runs; it is started if none does. */
  running(): Promise<TestCoppice>;
  /**
   * The running one is killed at a stop point that `trigger` leads to. What `trigger` comes to does not matter, since the
   * process may be gone before it. The next one has no stop point until it is told of one, so that it can put things right.
   */
  killAt(point: string, trigger: (coppice: TestCoppice) => Promise<unknown>): Promise<void>;
  /** Stops what runs, and removes the data directory. */
  remove(): Promise<void>;
}

export async function killedCoppice(
  data_directory: string,
  env: Readonly<Record<string, string>> = {},
): Promise<KilledCoppice> {
  const file = join(data_directory, '../stop-point');
  await writeFile(file, '');
  let current: TestCoppice | undefined;
  const running = async () => {
    current ??= await startCoppice({ data_directory, env: { ...env, COPPICE_TEST_STOP_POINT: file } });
    return current;
  };
  return {
    running,
    killAt: async (point, trigger) => {
      const doomed = await running();
      const ended = once(doomed.process, 'exit');
      await writeFile(file, point);
      const patience = new AbortController();
      // Waking a compute takes operations too, one of which may be the one to die in: nobody waits for the trigger.
      trigger(doomed).catch(() => undefined);
      await Promise.race([ended, delay(REACHED_WITHIN_MS, undefined, { signal: patience.signal })]);
      patience.abort();
      await writeFile(file, '');
      assert.equal(doomed.process.signalCode, 'SIGKILL', `${point} was not reached:\n${doomed.output()}`);
      current = undefined;
    },
    remove: async () => {
      // One that runs stops its servers with it.
      await (await running()).stop();
      await removeDataDirectory(data_directory);
    },
  };
}
