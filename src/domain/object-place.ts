import { isAbsolute, normalize } from 'node:path';

/** Where object storage is: a bucket, and what its keys begin with, or a directory. */
export type ObjectPlace =
  | { readonly kind: 's3'; readonly bucket: string; readonly prefix: string }
  | { readonly kind: 'directory'; readonly path: string };

const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
const PREFIX = /^[A-Za-z0-9_=-][A-Za-z0-9_=.-]*(\/[A-Za-z0-9_=-][A-Za-z0-9_=.-]*)*$/;
const PREFIX_LENGTH_MAX = 400;

/** Reads `s3://bucket/prefix` or the path of a directory, which must be absolute; undefined for anything else. */
export function parseObjectPlace(text: string): ObjectPlace | undefined {
  if (isAbsolute(text)) return { kind: 'directory', path: normalize(text).replace(/(?<=.)\/+$/, '') };
  const [, bucket = '', rest = ''] = /^s3:\/\/([^/]+)(\/.*)?$/.exec(text) ?? [];
  const prefix = rest.replaceAll(/^\/|\/$/g, '');
  if (!BUCKET.test(bucket) || prefix.length > PREFIX_LENGTH_MAX) return undefined;
  return prefix === '' || PREFIX.test(prefix) ? { kind: 's3', bucket, prefix } : undefined;
}
