import 'reflect-metadata';
import { createPrivateKey, randomBytes, webcrypto, X509Certificate } from 'node:crypto';
import { link, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { join } from 'node:path';
import * as x509 from '@peculiar/x509';

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
const DAY_MS = 86_400_000;
const AUTHORITY_DAYS = 3650;
const LEAF_DAYS = 90;
/** Clocks of clients may be behind. */
const BACKDATED_MS = 3_600_000;

export interface IssuedCertificate {
  readonly certificate_pem: string;
  readonly certificate_der: Buffer;
  readonly key_pem: string;
  readonly expires_at: Date;
}

/** Issues certificates, signed with ECDSA and SHA-256, that everybody who was given `certificate_pem` trusts. */
export interface CertificateAuthority {
  readonly certificate_pem: string;
  /** @param names host names and IP addresses, the first of them the subject */
  issue(names: readonly string[]): Promise<IssuedCertificate>;
}

/**
 * Opens the authority kept in `directory` as ca.key (0600) and ca.crt, and makes it first when there is none. Several
 * processes may do so at once, and each step may be the last: the key decides, and a missing certificate is made from it.
 */
export async function openCertificateAuthority(directory: string): Promise<CertificateAuthority> {
  await mkdir(directory, { recursive: true, mode: 0o755 });
  const key_pem = await ensureFile(join(directory, 'ca.key'), 0o600, newKeyPem);
  const keys = await importKey(key_pem, join(directory, 'ca.key'));
  const certificate_pem = await ensureFile(join(directory, 'ca.crt'), 0o644, () => selfSign(keys));
  const certificate = new x509.X509Certificate(certificate_pem);
  if (!new X509Certificate(certificate_pem).checkPrivateKey(createPrivateKey(key_pem))) {
    throw new Error(
      `${directory}: ca.crt was not made with ca.key; restore the pair or remove both to get a new authority`,
    );
  }
  const issuer = await prepareIssuer(certificate, keys);
  return { certificate_pem, issue: (names) => issue(names, issuer) };
}

/** The content of a file that one of all makers writes, whole or not at all. */
async function ensureFile(path: string, mode: number, make: () => Promise<string>): Promise<string> {
  const existing = await readFile(path, 'utf8').catch(ignoreMissing);
  if (existing !== undefined) return existing;
  const temporary = `${path}.${randomBytes(6).toString('hex')}`;
  try {
    await writeFile(temporary, await make(), { mode, flag: 'wx', flush: true });
    await link(temporary, path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
  } finally {
    await rm(temporary, { force: true });
  }
  return readFile(path, 'utf8');
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}

async function newKeyPem(): Promise<string> {
  const { privateKey } = await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
  return exportKey(privateKey);
}

async function exportKey(key: webcrypto.CryptoKey): Promise<string> {
  const pkcs8 = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', key));
  return `${createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' }).export({ format: 'pem', type: 'pkcs8' })}`;
}

async function importKey(pem: string, path: string): Promise<webcrypto.CryptoKeyPair> {
  try {
    const key = createPrivateKey(pem);
    const { d: _, ...publicJwk } = key.export({ format: 'jwk' });
    const pkcs8 = key.export({ format: 'der', type: 'pkcs8' });
    return {
      privateKey: await webcrypto.subtle.importKey('pkcs8', pkcs8, ALGORITHM, false, ['sign']),
      publicKey: await webcrypto.subtle.importKey('jwk', publicJwk, ALGORITHM, true, ['verify']),
    };
  } catch (cause) {
    throw new Error(`${path} is not an ECDSA P-256 private key; restore it, or remove it together with ca.crt`, {
      cause,
    });
  }
}

const serialNumber = (): string => `00${randomBytes(16).toString('hex')}`;

async function selfSign(keys: webcrypto.CryptoKeyPair): Promise<string> {
  const now = Date.now();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned(
    {
      serialNumber: serialNumber(),
      name: [{ CN: [`Coppice local CA ${randomBytes(4).toString('hex')}`] }],
      notBefore: new Date(now - BACKDATED_MS),
      notAfter: new Date(now + AUTHORITY_DAYS * DAY_MS),
      signingAlgorithm: ALGORITHM,
      keys: keys as CryptoKeyPair,
      extensions: [
        new x509.BasicConstraintsExtension(true, 0, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
        await x509.SubjectKeyIdentifierExtension.create(keys.publicKey as CryptoKey),
      ],
    },
    webcrypto as Crypto,
  );
  return `${certificate.toString('pem')}\n`;
}

/** What does not differ between certificates. One process holds all their keys, so they share one. */
interface Issuer {
  readonly certificate: x509.X509Certificate;
  readonly signingKey: CryptoKey;
  readonly leafKey: CryptoKey;
  readonly leafKey_pem: string;
  readonly extensions: readonly x509.Extension[];
}

async function prepareIssuer(certificate: x509.X509Certificate, keys: webcrypto.CryptoKeyPair): Promise<Issuer> {
  const leaf = await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
  const leafKey = leaf.publicKey as CryptoKey;
  return {
    certificate,
    signingKey: keys.privateKey as CryptoKey,
    leafKey,
    leafKey_pem: await exportKey(leaf.privateKey),
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      await x509.AuthorityKeyIdentifierExtension.create(keys.publicKey as CryptoKey),
      await x509.SubjectKeyIdentifierExtension.create(leafKey),
    ],
  };
}

async function issue(names: readonly string[], issuer: Issuer): Promise<IssuedCertificate> {
  const now = Date.now();
  const expires_at = new Date(Math.min(now + LEAF_DAYS * DAY_MS, issuer.certificate.notAfter.getTime()));
  const certificate = await x509.X509CertificateGenerator.create(
    {
      serialNumber: serialNumber(),
      // A common name has at most 64 characters; the alternative names are what counts.
      subject: [{ CN: [names[0]!.slice(0, 64)] }],
      issuer: issuer.certificate.subjectName,
      notBefore: new Date(now - BACKDATED_MS),
      notAfter: expires_at,
      signingAlgorithm: ALGORITHM,
      publicKey: issuer.leafKey,
      signingKey: issuer.signingKey,
      extensions: [
        ...issuer.extensions,
        new x509.SubjectAlternativeNameExtension(
          names.map((name) => ({ type: isIP(name) ? ('ip' as const) : ('dns' as const), value: name })),
        ),
      ],
    },
    webcrypto as Crypto,
  );
  const certificate_der = Buffer.from(certificate.rawData);
  return { certificate_pem: certificate.toString('pem'), certificate_der, key_pem: issuer.leafKey_pem, expires_at };
}
