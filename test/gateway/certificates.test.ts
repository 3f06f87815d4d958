import 'reflect-metadata';
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it, mock } from 'node:test';
import { promisify } from 'node:util';
import { openCertificateAuthority } from '../../src/gateway/certificate-authority.ts';
import { fileCertificates, localCertificates } from '../../src/gateway/certificates.ts';
import { upgradeToTls } from '../../src/gateway/upgrade-to-tls.ts';
import { openDirectTls } from '../support/wire-client.ts';

const run = promisify(execFile);
let root: string;
before(async () => {
  root = await mkdtemp(join(tmpdir(), 'coppice-certificates-'));
});
after(() => rm(root, { recursive: true, force: true }));

let made = 0;
const newDirectory = () => join(root, `authority-${++made}`);

describe('the local authority', () => {
  it('is made once, whoever asks at the same time, and kept', async () => {
    const directory = newDirectory();
    const opened = await Promise.all(Array.from({ length: 8 }, () => openCertificateAuthority(directory)));
    const again = await openCertificateAuthority(directory);
    for (const { certificate_pem } of opened) assert.equal(certificate_pem, again.certificate_pem);
    assert.deepEqual((await readdir(directory)).sort(), ['ca.crt', 'ca.key']);
    assert.equal((await stat(join(directory, 'ca.key'))).mode & 0o777, 0o600);
  });

  it('makes its certificate again from the key when that step was not reached', async () => {
    const directory = newDirectory();
    const first = await openCertificateAuthority(directory);
    const leaf = new X509Certificate((await first.issue(['a.test'])).certificate_pem);
    await rm(join(directory, 'ca.crt'));
    const second = await openCertificateAuthority(directory);
    assert.equal(leaf.verify(new X509Certificate(second.certificate_pem).publicKey), true);
  });

  it('says so when the files do not belong together', async () => {
    const [one, other] = [newDirectory(), newDirectory()];
    await openCertificateAuthority(one);
    await openCertificateAuthority(other);
    await rename(join(one, 'ca.crt'), join(other, 'ca.crt'));
    await assert.rejects(openCertificateAuthority(other), /ca\.crt was not made with ca\.key/);
    await writeFile(join(one, 'ca.key'), 'no key');
    await assert.rejects(openCertificateAuthority(one), /ca\.key is not an ECDSA P-256 private key/);
  });

  it('issues certificates that OpenSSL accepts for their names only', async () => {
    const directory = newDirectory();
    const authority = await openCertificateAuthority(directory);
    const { certificate_pem } = await authority.issue(['ep-x.localhost']);
    await writeFile(join(directory, 'leaf.crt'), certificate_pem);
    const verify = (name: string) =>
      run('openssl', [
        'verify',
        '-x509_strict',
        '-purpose',
        'sslserver',
        '-CAfile',
        join(directory, 'ca.crt'),
        '-verify_hostname',
        name,
        join(directory, 'leaf.crt'),
      ]);
    await verify('ep-x.localhost');
    await assert.rejects(verify('ep-y.localhost'), /hostname mismatch/i);
  });
});

describe('local certificates', () => {
  it('are minted for the exact name, once for all who ask, and hashed for channel binding', async () => {
    const certificates = await localCertificates({ directory: newDirectory(), domain: 'db.test' });
    const [one, two] = await Promise.all([certificates.forName('ep-x.db.test'), certificates.forName('EP-X.db.test.')]);
    assert.equal(one, two);
    assert.notEqual(await certificates.forName('ep-y.db.test'), one);
    assert.equal(one.channelBinding?.length, 32);
  });

  it('are the default one for no name and for names that are not ours', async () => {
    const certificates = await localCertificates({ directory: newDirectory(), domain: 'db.test' });
    const fallback = await certificates.forName(undefined);
    for (const name of ['db.test', 'localhost', 'a.b.db.test', 'evil.example', 'x_y.db.test']) {
      assert.equal(await certificates.forName(name), fallback, name);
    }
  });

  it('are the default one for more new names than keys may be made for', async () => {
    const certificates = await localCertificates({ directory: newDirectory(), domain: 'db.test', minted_burst: 2 });
    const ordinary = await certificates.forName(undefined);
    const first = await certificates.forName('ep-0.db.test');
    assert.notEqual(first, ordinary);
    const others = await Promise.all(Array.from({ length: 50 }, (_, n) => certificates.forName(`ep-${n + 1}.db.test`)));
    assert.ok(others.filter((served) => served === ordinary).length > 10);
    assert.equal(await certificates.forName('ep-0.db.test'), first, 'known names are served as before');
  });

  it('are forgotten, the longest unused first, beyond a bound', async () => {
    const directory = newDirectory();
    const certificates = await localCertificates({ directory, domain: 'db.test', minted_burst: 10_000 });
    const first = await certificates.forName('ep-first.db.test');
    const kept = await certificates.forName('ep-kept.db.test');
    for (let index = 0; index < 998; index++) {
      await certificates.forName(`ep-${index}.db.test`);
      if (index % 100 === 0) await certificates.forName('ep-kept.db.test');
    }
    await certificates.forName('ep-one-more.db.test');
    assert.equal(await certificates.forName('ep-kept.db.test'), kept);
    assert.notEqual(await certificates.forName('ep-first.db.test'), first);
  });

  it('are renewed at half of their life', async () => {
    const certificates = await localCertificates({ directory: newDirectory(), domain: 'db.test' });
    const first = await certificates.forName('ep-x.db.test');
    mock.timers.enable({ apis: ['Date'], now: Date.now() + 46 * 86_400_000 });
    try {
      assert.notEqual(await certificates.forName('ep-x.db.test'), first);
    } finally {
      mock.timers.reset();
    }
  });
});

describe("the operator's certificate", () => {
  const openssl = async (directory: string, hash: string, algorithm = 'ec', more: string[] = []) => {
    const files = { certificate: join(directory, 'tls.crt'), key: join(directory, 'tls.key') };
    const key = algorithm === 'ec' ? ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256'] : ['-newkey', algorithm];
    const words = [
      'req',
      '-x509',
      ...key,
      '-nodes',
      '-subj',
      '/CN=db.test',
      '-days',
      '30',
      '-keyout',
      files.key,
      '-out',
      files.certificate,
      ...more,
    ];
    await run('openssl', hash ? [...words, `-${hash}`] : words);
    return files;
  };

  it('is served for every name, hashed as its own signature is', async () => {
    for (const [hash, algorithm, expected] of [
      ['sha256', 'ec', 'sha256'],
      ['sha384', 'ec', 'sha384'],
      ['sha512', 'rsa:2048', 'sha512'],
      ['', 'ed25519', undefined],
    ] as const) {
      const files = await openssl(await mkdtemp(join(root, 'own-')), hash, algorithm);
      const certificates = await fileCertificates([files]);
      const served = await certificates.forName('ep-x.db.test');
      assert.equal(await certificates.forName(undefined), served);
      const { raw } = new X509Certificate(await readFile(files.certificate));
      assert.deepEqual(served.channelBinding, expected && createHash(expected).update(raw).digest());
    }
  });

  it('is one of several, by the name that is asked for', async () => {
    const make = async (...names: string[]) => {
      const extension = ['-addext', `subjectAltName=${names.map((name) => `DNS:${name}`).join(',')}`];
      return openssl(await mkdtemp(join(root, 'several-')), 'sha256', 'ec', extension);
    };
    const pairs = [await make('*.db.test'), await make('ep-x.db.test'), await make('*.other.test', 'other.test')];
    const certificates = await fileCertificates(pairs);
    const bindings = await Promise.all(
      pairs.map(async ({ certificate }) => {
        const { raw } = new X509Certificate(await readFile(certificate));
        return createHash('sha256').update(raw).digest('hex');
      }),
    );
    const chosen = async (name?: string) =>
      bindings.indexOf((await certificates.forName(name)).channelBinding!.toString('hex'));
    assert.equal(await chosen('ep-y.db.test'), 0);
    assert.equal(await chosen('ep-x.db.test'), 1, 'the very name goes before a wildcard');
    assert.equal(await chosen('EP-X.other.test.'), 2);
    assert.equal(await chosen('other.test'), 2);
    assert.equal(await chosen('a.b.other.test'), 0, 'a name of nobody');
    assert.equal(await chosen(), 0);
    const server = createServer((plain) => {
      upgradeToTls(plain, certificates, 'postgresql').then(
        ({ socket }) => socket.resume(),
        () => undefined,
      );
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    for (const [servername, at] of [
      ['ep-y.db.test', 0],
      ['x.other.test', 2],
    ] as const) {
      const { stream } = await openDirectTls(port, { servername, ALPNProtocols: ['postgresql'] });
      const { raw } = stream.getPeerCertificate();
      assert.equal(createHash('sha256').update(raw).digest('hex'), bindings[at]);
      stream.destroy();
    }
    server.close();
    await once(server, 'close');
  });

  it('is read again when the files have changed, and kept while they are unsound', async () => {
    const directory = await mkdtemp(join(root, 'renewed-'));
    const files = await openssl(directory, 'sha256');
    const certificates = await fileCertificates([files]);
    const first = await certificates.forName(undefined);
    mock.timers.enable({ apis: ['Date'], now: Date.now() });
    try {
      await writeFile(files.certificate, 'half a file');
      mock.timers.tick(61_000);
      assert.equal(await certificates.forName(undefined), first);
      await openssl(directory, 'sha256');
      await utimes(files.certificate, new Date(), new Date(Date.now() + 5000));
      assert.equal(await certificates.forName(undefined), first, 'looked at once a minute only');
      mock.timers.tick(61_000);
      assert.notEqual(await certificates.forName(undefined), first);
    } finally {
      mock.timers.reset();
    }
  });

  it('is refused at the start when it is none', async () => {
    const directory = await mkdtemp(join(root, 'bad-'));
    const files = await openssl(directory, 'sha256');
    await writeFile(files.key, 'no key');
    await assert.rejects(fileCertificates([files]), /are not a certificate chain in PEM and its private key/);
    await assert.rejects(fileCertificates([{ ...files, key: join(directory, 'none') }]), { code: 'ENOENT' });
  });
});
