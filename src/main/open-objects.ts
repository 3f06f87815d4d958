import { parseObjectPlace } from '../domain/object-place.ts';
import type { Settings } from '../domain/settings.ts';
import type { ObjectStore } from '../drivers/objects/contract.ts';
import { createDirectoryObjects } from '../drivers/objects/directory/driver.ts';
import { StartError } from './start-error.ts';

type ObjectSettings = Pick<Settings, 'objects' | 's3_endpoint' | 's3_region'>;

/** The object storage of the installation; undefined where it has none. */
export async function objectsOf(settings: ObjectSettings): Promise<ObjectStore | undefined> {
  return settings.objects === undefined ? undefined : openObjects(settings.objects, settings);
}

/**
 * The object storage at `place`, which is `s3://bucket/prefix` or an absolute directory. Nothing is looked at yet: its
 * `check` does. Throws StartError for what is no place.
 */
export async function openObjects(
  text: string,
  settings: Pick<Settings, 's3_endpoint' | 's3_region'>,
): Promise<ObjectStore> {
  const place = parseObjectPlace(text);
  if (place?.kind === 'directory') return createDirectoryObjects({ root: place.path });
  if (place?.kind === 's3') {
    const { createS3Objects } = await import('../drivers/objects/s3/driver.ts');
    return createS3Objects({ ...place, region: settings.s3_region, endpoint: settings.s3_endpoint });
  }
  throw new StartError(`"${text}" is no place for objects; give s3://bucket/prefix or an absolute path of a directory`);
}
