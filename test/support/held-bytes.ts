import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/**
 * Bytes of buffers that this process holds. What nobody holds any more is collected first: how much of that lies about at a
 * moment is the collector's choice. The second collection ends the sweeping that the first leaves to other threads.
 */
export function heldBytes(): number {
  collectGarbage();
  collectGarbage();
  return process.memoryUsage().arrayBuffers;
}
