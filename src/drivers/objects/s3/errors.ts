import { ObjectError } from '../contract.ts';

interface FailedRequest {
  /** `s3://bucket/prefix` */
  readonly place: string;
  readonly bucket: string;
  readonly key: string | undefined;
}

/** What S3 answered, or why it could not be asked; as far as it is looked at. */
interface Failure {
  readonly name?: string;
  readonly code?: string;
  readonly $metadata?: { readonly httpStatusCode?: number };
}

const WRONG_KEY = new Set([
  'InvalidAccessKeyId',
  'SignatureDoesNotMatch',
  'InvalidToken',
  'ExpiredToken',
  'TokenRefreshRequired',
  'AuthorizationQueryParametersError',
  // Of versitygw.
  'XAdminUserNotFound',
]);
const WRONG_REGION = new Set([
  'AuthorizationHeaderMalformed',
  'PermanentRedirect',
  'IllegalLocationConstraintException',
]);
const NO_CREDENTIALS = new Set(['CredentialsProviderError', 'TokenProviderError']);
const NO_OBJECT = new Set(['NoSuchKey', 'NotFound']);
/** Statuses that a later attempt may not get. */
const MAY_PASS = new Set([408, 412, 425, 429]);

/**
 * One sentence for people, and whether trying again can help. Of what S3 or its client said only names and codes are
 * told, since nobody knows what else its texts hold.
 */
export function objectErrorOf(cause: unknown, { place, bucket, key }: FailedRequest): unknown {
  if (cause instanceof ObjectError) return cause;
  const { name = '', code, $metadata } = cause as Failure;
  const status = $metadata?.httpStatusCode;
  const what = [code ?? name, status].filter((part) => part !== undefined && part !== '').join(', ');
  const refused = (sentence: string) => new ObjectError('refused', key, `${place} refuses: ${sentence} (${what})`);
  if (name === 'NoSuchBucket') return refused(`there is no bucket ${bucket}; make it, or correct COPPICE_OBJECTS`);
  if (NO_OBJECT.has(name) && key !== undefined) {
    return new ObjectError('missing', key, `there is no object ${key} in ${place}`);
  }
  if (NO_CREDENTIALS.has(name)) {
    const advice = 'set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile in ~/.aws';
    return new ObjectError('refused', key, `no key for ${place} was found; ${advice} (${what})`);
  }
  if (WRONG_KEY.has(name))
    return refused('it does not know the access key, or the secret is not its own; correct them');
  if (WRONG_REGION.has(name))
    return refused('the bucket is elsewhere; correct COPPICE_S3_REGION or COPPICE_S3_ENDPOINT');
  if (status === 401 || status === 403) {
    return refused('the access key may not do this; let it list, read, write and delete there');
  }
  // Not a number: it was never answered.
  if (status !== undefined && status >= 400 && status < 500 && !MAY_PASS.has(status)) {
    return refused('the request is not one that it takes');
  }
  if (!isOfTheNetwork(cause) && status === undefined) return cause;
  return new ObjectError('unreachable', key, `${place} cannot be reached, or is too slow (${what})`);
}

/** Rather than a mistake of ours, or what a source of bytes threw. */
function isOfTheNetwork(cause: unknown): boolean {
  const { name = '', code, $metadata } = cause as Failure & { readonly syscall?: string };
  if ($metadata !== undefined) return true;
  if (name === 'TimeoutError' || name === 'AbortError' || name === 'NetworkingError') return true;
  return code !== undefined && /^(E[A-Z_]+|UND_.*|CERT_.*|.*_CERT(_.*)?|ERR_(TLS|SSL|SOCKET|STREAM)_.*)$/.test(code);
}
