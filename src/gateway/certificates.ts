import 'reflect-metadata';
import { constants, createHash, X509Certificate } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { createSecureContext, type SecureContext } from 'node:tls';
import * as x509 from '@peculiar/x509';
import { LIMITS } from '../domain/limits.ts';
import { openCertificateAuthority } from './certificate-authority.ts';
import { hostLabel } from './route.ts';

/** What a TLS connection is served. */
export interface ServedCertificate {
  readonly context: SecureContext;
  /** What SCRAM binds to: the hash of exactly this leaf; undefined when its signature names no hash (RFC 5929). */
  readonly channelBinding: Buffer | undefined;
}

export interface Certificates {
  /** The certificate for the host name a client asked for; the default one for no name or one that is not ours. */
  forName(servername: string | undefined): Promise<ServedCertificate>;
}

/** Certificates from the local authority in `directory`, each minted for the exact name that was asked for. */
export async function localCertificates({
  directory,
  domain,
  minted_burst = LIMITS.certificates_minted_burst,
}: {
  directory: string;
  domain: string;
  minted_burst?: number;
}): Promise<Certificates & { readonly authority_pem: string }> {
  const authority = await openCertificateAuthority(directory);
  const defaultNames = [...new Set([domain, 'localhost', '127.0.0.1', '::1'])];
  // Least recently used first. Promises, so that a burst of connections mints once.
  const cache = new Map<string, { served: Promise<ServedCertificate>; renew_at: number }>();

  function mint(name: string) {
    const entry = { served: issueAndServe(), renew_at: Number.POSITIVE_INFINITY };
    async function issueAndServe(): Promise<ServedCertificate> {
      const issued = await authority.issue(name === '' ? defaultNames : [name]);
      entry.renew_at = (Date.now() + issued.expires_at.getTime()) / 2;
      return {
        context: secureContext(issued.certificate_pem, issued.key_pem),
        channelBinding: createHash('sha256').update(issued.certificate_der).digest(),
      };
    }
    entry.served.catch(() => cache.get(name) === entry && cache.delete(name));
    return entry;
  }

  const budget = mintBudget(minted_burst);

  function forName(servername: string | undefined): Promise<ServedCertificate> {
    const asked = hostLabel(servername, domain) === undefined ? '' : servername!.toLowerCase().replace(/\.$/, '');
    // Names cost a key each, and anybody can make them up.
    const name = asked === '' || cache.has(asked) || budget.take() ? asked : '';
    const known = cache.get(name);
    const entry = known && known.renew_at > Date.now() ? known : mint(name);
    cache.delete(name);
    cache.set(name, entry);
    if (cache.size > LIMITS.certificates_cached) cache.delete(cache.keys().next().value!);
    return entry.served;
  }

  await forName(undefined);
  return { authority_pem: authority.certificate_pem, forName };
}

/** A token for each key that may be made now. */
function mintBudget(burst: number): { take(): boolean } {
  const rate = LIMITS.certificates_minted_per_second;
  let tokens = burst;
  let filled_at = Date.now();
  return {
    take() {
      const now = Date.now();
      tokens = Math.min(burst, tokens + (Math.max(0, now - filled_at) / 1000) * rate);
      filled_at = now;
      if (tokens < 1) return false;
      tokens -= 1;
      return true;
    },
  };
}

/** Paths of a certificate chain and its private key, in PEM. */
export interface CertificateFiles {
  readonly certificate: string;
  readonly key: string;
}

/** A pair of files as it was read last. */
interface Loaded extends ServedCertificate {
  covers(servername: string, options: { wildcards: boolean }): boolean;
}

/**
 * The operator's own certificates. A client gets the first that has the very name it asks for, else the first that has it by a
 * wildcard, else the first of all. A renewed pair of files is noticed within a minute, by the next connection.
 *
 * @param pairs at least one
 */
export async function fileCertificates(pairs: readonly CertificateFiles[]): Promise<Certificates> {
  const current = await Promise.all(pairs.map(openPair));
  return {
    async forName(asked) {
      const servername = asked?.replace(/\.$/, '');
      const loaded = await Promise.all(current.map((read) => read()));
      if (servername === undefined || loaded.length === 1) return loaded[0]!;
      const named = (wildcards: boolean) => loaded.find((one) => one.covers(servername, { wildcards }));
      return named(false) ?? named(true) ?? loaded[0]!;
    },
  };
}

/** Gives the pair as it is, looking at the files at most once in a while. Throws when it is not sound at first. */
async function openPair(files: CertificateFiles): Promise<() => Promise<Loaded>> {
  let version = await modifiedAt(files);
  let served = await load(files);
  let checked_at = Date.now();

  async function refresh(): Promise<void> {
    const found = await modifiedAt(files);
    if (found === version) return;
    served = await load(files);
    version = found;
  }

  return async () => {
    if (Date.now() - checked_at > LIMITS.certificate_check_interval_ms) {
      checked_at = Date.now();
      // A pair that is being replaced does not load; the old one serves until the next look.
      await refresh().catch(() => undefined);
    }
    return served;
  };
}

async function modifiedAt({ certificate, key }: CertificateFiles): Promise<string> {
  const found = await Promise.all([stat(certificate), stat(key)]);
  return found.map(({ mtimeMs, ino }) => `${mtimeMs}:${ino}`).join(' ');
}

async function load({ certificate, key }: CertificateFiles): Promise<Loaded> {
  const [certificate_pem, key_pem] = await Promise.all([readFile(certificate, 'utf8'), readFile(key, 'utf8')]);
  try {
    const leaf = new X509Certificate(certificate_pem);
    return {
      context: secureContext(certificate_pem, key_pem),
      channelBinding: endPointHash(certificate_pem),
      covers: (servername, options) => leaf.checkHost(servername, { ...options, subject: 'never' }) !== undefined,
    };
  } catch (cause) {
    throw new Error(`${certificate} and ${key} are not a certificate chain in PEM and its private key`, { cause });
  }
}

function secureContext(certificate_pem: string, key_pem: string): SecureContext {
  return createSecureContext({
    cert: certificate_pem,
    key: key_pem,
    minVersion: 'TLSv1.2',
    // A resumed session shows no certificate, so we would not know which one SCRAM has to bind to.
    secureOptions: constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION,
  });
}

/** `tls-server-end-point`: the leaf hashed with its signature's own hash, SHA-256 in place of anything weaker. */
function endPointHash(certificate_pem: string): Buffer | undefined {
  const leaf = new x509.X509Certificate(certificate_pem);
  const hash = (leaf.signatureAlgorithm as { hash?: { name: string } }).hash?.name;
  if (hash === undefined) return undefined;
  const chosen = hash === 'SHA-384' ? 'sha384' : hash === 'SHA-512' ? 'sha512' : 'sha256';
  return createHash(chosen).update(Buffer.from(leaf.rawData)).digest();
}
