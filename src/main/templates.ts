import type { StorageDriver, VolumeRef } from '../drivers/storage/contract.ts';
import type { Distribution } from '../postgres/distributions.ts';
import { fillTemplate } from '../postgres/template.ts';

const PREFIX = 'template-';

/** True of the volume of a template, which is made again when it is missing. */
export const isTemplate = (volume_id: string): boolean => volume_id.startsWith(PREFIX);

/** The template volumes that new projects are cloned from, one for each distribution, made when first asked for. */
export function createTemplates(
  storage: StorageDriver,
  distributions: ReadonlyMap<string, Distribution>,
): (distributionId: string) => Promise<VolumeRef> {
  const made = new Map<string, Promise<VolumeRef>>();
  return (id) => {
    const known = made.get(id);
    if (known) return known;
    const distribution = distributions.get(id);
    if (!distribution) return Promise.reject(new Error(`there is no Postgres distribution ${id}`));
    const making = storage.ensureCreated(`${PREFIX}${id.replaceAll('.', '-')}`, (path) =>
      fillTemplate(distribution, path),
    );
    made.set(id, making);
    making.catch(() => made.delete(id));
    return making;
  };
}
