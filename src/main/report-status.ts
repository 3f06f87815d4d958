import type { StatusReport } from '../cli/status.ts';
import type { Settings } from '../domain/settings.ts';
import { countEverything, findPool } from '../store/counts.ts';
import { findLogShipping } from '../store/log-shipping.ts';
import { withStore } from './keys.ts';
import { VERSION } from './version.ts';

/** What `coppice status` shows of a running Coppice. */
export function reportStatus(settings: Settings): Promise<StatusReport> {
  return withStore(settings, async ({ store }) => ({
    version: VERSION,
    data_directory: settings.data_dir,
    ...(await countEverything(store)),
    storage: await findPool(store),
    log_shipping: await findLogShipping(store),
  }));
}
