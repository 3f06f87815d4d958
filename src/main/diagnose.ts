import { access, constants, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Finding } from '../cli/doctor.ts';
import type { Settings } from '../domain/settings.ts';
import { ObjectError } from '../drivers/objects/contract.ts';
import { listDistributions } from '../postgres/distributions.ts';
import { countEverything } from '../store/counts.ts';
import { findOpenDamages } from '../store/history-damages.ts';
import { findLogShipping } from '../store/log-shipping.ts';
import { createLogger } from '../watch/logger.ts';
import { domainResolves } from './domain-names.ts';
import { withStore } from './keys.ts';
import { openObjects } from './open-objects.ts';
import { STORE_COMPUTE_ID } from './own-store.ts';
import { computeDriverOf, computesDirectory } from './parts.ts';
import { StartError } from './start-error.ts';
import { reportStorage } from './storage-report.ts';

/** Looks at everything that a start or a connection depends on. Leaves everything as it is. */
export async function diagnose(settings: Settings): Promise<Finding[]> {
  const parts = [
    lookAtDirectory,
    lookAtTrust,
    lookAtDistributions,
    lookAtStorage,
    lookAtNames,
    lookAtComputes,
    lookAtStore,
    lookAtHistory,
    lookAtObjects,
  ];
  const findings = await Promise.all(parts.map((look) => look(settings)));
  return findings.flat();
}

async function lookAtDirectory({ data_dir }: Settings): Promise<Finding> {
  const subject = 'data directory';
  const existing = (await stat(data_dir).catch(() => undefined)) ? data_dir : dirname(data_dir);
  const writable = await access(existing, constants.W_OK).then(
    () => true,
    () => false,
  );
  if (writable) return { subject, verdict: 'good', text: data_dir };
  return {
    subject,
    verdict: 'broken',
    text: `${data_dir} cannot be written by this user`,
    advice: 'Give this user the right to, or choose another with COPPICE_DATA_DIR.',
  };
}

function lookAtTrust(): Finding {
  const subject = 'trust';
  if (isRoot()) return { subject, verdict: 'good', text: 'every project runs under a user of its own' };
  return {
    subject,
    verdict: 'worse',
    text: 'not root: all projects run as one user and must trust each other',
    advice: 'Run Coppice as root where projects belong to different people.',
  };
}

async function lookAtDistributions({ data_dir }: Settings): Promise<Finding> {
  const ids = (await listDistributions(data_dir)).map(({ id }) => id);
  const subject = 'Postgres';
  if (ids.length > 0) return { subject, verdict: 'good', text: ids.join(', ') };
  return { subject, verdict: 'worse', text: 'nothing was copied here yet', advice: 'The first start does it.' };
}

async function lookAtStorage({ data_dir }: Settings): Promise<Finding> {
  const { path, state, pool } = await reportStorage(data_dir);
  const subject = 'storage';
  if (!state) {
    const text = pool ? `the pool ${pool.image} is not mounted` : `nothing is stored at ${path} yet`;
    return { subject, verdict: 'worse', text, advice: 'The next start sees to it.' };
  }
  const text = `${state.driver} at ${path}, ${(state.free_bytes / 1024 ** 3).toFixed(1)} GiB free`;
  if (state.free_bytes < state.reserve_bytes) {
    return {
      subject,
      verdict: 'broken',
      text: `${text}, which is less than the reserve`,
      advice: 'Delete branches or make room; nothing new is made meanwhile.',
    };
  }
  if (state.driver !== 'copy') return { subject, verdict: 'good', text };
  return {
    subject,
    verdict: 'worse',
    text: `${text}; every branch is a full copy`,
    advice: isRoot()
      ? 'On XFS or Btrfs branches are instant: another data directory, or, while there are no projects, coppice pool create --size 20G.'
      : 'With a data directory on XFS or Btrfs (COPPICE_DATA_DIR) branches are instant.',
  };
}

async function lookAtNames({ domain }: Settings): Promise<Finding> {
  const subject = 'names';
  if (await domainResolves(domain)) return { subject, verdict: 'good', text: `*.${domain} resolves` };
  if (domain !== 'localhost') {
    return {
      subject,
      verdict: 'broken',
      text: `*.${domain} does not resolve`,
      advice: `Add a wildcard record for *.${domain} that leads to this machine.`,
    };
  }
  return {
    subject,
    verdict: 'worse',
    text: '*.localhost does not resolve; connection strings name localhost and carry the endpoint in options',
    advice: 'Debian and Ubuntu: apt-get install libnss-myhostname.',
  };
}

async function lookAtComputes({ data_dir }: Settings): Promise<Finding[]> {
  const subject = 'servers';
  // The driver would make what is missing.
  if (!(await stat(computesDirectory(data_dir)).catch(() => undefined))) {
    return [{ subject, verdict: 'good', text: 'none was ever started here' }];
  }
  const driver = computeDriverOf(data_dir, createLogger({ level: 'error' }));
  const computes = (await driver.list()).filter(({ id }) => id !== STORE_COMPUTE_ID);
  return [
    driver.capabilities.limits_enforced
      ? { subject: 'limits', verdict: 'good', text: 'compute sizes are enforced by cgroups' }
      : {
          subject: 'limits',
          verdict: 'worse',
          text: 'cgroups cannot be used: compute sizes only decide the configuration',
        },
    { subject, verdict: 'good', text: `${computes.length} run for endpoints` },
  ];
}

const DAMAGES_SHOWN = 20;

/** Each damage is a finding of its own. */
async function lookAtHistory(settings: Settings): Promise<Finding[]> {
  const subject = 'history';
  try {
    const damages = await withStore(settings, ({ store }) => findOpenDamages(store, DAMAGES_SHOWN));
    if (damages.length === 0) return [{ subject, verdict: 'good', text: 'nothing is known to be missing or damaged' }];
    return damages.map(({ project_id, branch_id, detail, found_at }) => ({
      subject,
      verdict: 'broken',
      text: `${branch_id ?? 'a snapshot'} of project ${project_id}: ${detail} (found ${found_at.toISOString()})`,
      advice:
        'Points after it can be restored from the next snapshot on; the branch as it is now is not touched by it.',
    }));
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    return [{ subject, verdict: 'worse', text: 'Coppice does not run, so it could not be looked at' }];
  }
}

/** The place itself, and, of a running Coppice, whether what should be there is. */
async function lookAtObjects(settings: Settings): Promise<Finding[]> {
  const place = await lookAtPlace(settings);
  if (settings.objects === undefined) return [place];
  try {
    const shipping = await withStore(settings, ({ store }) => findLogShipping(store));
    if (!shipping?.failing_since) return [place];
    const { waiting_segments, failing_since, failure } = shipping;
    const text = `${waiting_segments} segments of log wait; nothing could be sent since ${failing_since.toISOString()}: ${failure}`;
    const advice = 'They stay on this disk and are sent once that works. Servers do not wait for it.';
    return [place, { subject: 'object storage', verdict: 'broken', text, advice }];
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    return [place];
  }
}

async function lookAtPlace(settings: Settings): Promise<Finding> {
  const subject = 'object storage';
  if (settings.objects === undefined) {
    return {
      subject,
      verdict: 'worse',
      text: 'none: what is on this disk is nowhere else',
      advice: 'COPPICE_OBJECTS names a bucket, or a directory on another disk.',
    };
  }
  try {
    const objects = await openObjects(settings.objects, settings);
    await objects.check();
    return { subject, verdict: 'good', text: `${objects.place} can be read and written` };
  } catch (error) {
    if (!(error instanceof ObjectError)) throw error;
    return { subject, verdict: 'broken', text: error.message };
  }
}

const isRoot = (): boolean => process.getuid?.() === 0;

async function lookAtStore(settings: Settings): Promise<Finding> {
  const subject = 'operations';
  try {
    const { operations_failed } = await withStore(settings, ({ store }) => countEverything(store));
    if (operations_failed === 0) return { subject, verdict: 'good', text: 'none failed in the last day' };
    return {
      subject,
      verdict: 'worse',
      text: `${operations_failed} failed in the last day`,
      advice: 'The operations of each project tell why: neonctl operations list, or GET /projects/{id}/operations.',
    };
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    return { subject, verdict: 'worse', text: 'Coppice does not run, so they could not be looked at' };
  }
}
