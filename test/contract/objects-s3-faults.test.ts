import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import type { ObjectErrorKind, ObjectStore } from '../../src/drivers/objects/contract.ts';
import { createS3Objects } from '../../src/drivers/objects/s3/driver.ts';
import { makeS3Target, type ObjectTarget } from '../support/object-target.ts';
import { hasS3, S3_CREDENTIALS, type S3Server } from '../support/s3-server.ts';

const MIB = 1024 ** 2;
/** With time for a server that is slow today: what is broken off is seen at once. */
const LIMITS = { connect_ms: 5_000, idle_ms: 10_000, total_ms: 60_000, attempts: 4 };
/** For one that never answers. */
const HASTY = { ...LIMITS, connect_ms: 500, idle_ms: 300 };

/** Rejects so, with a sentence that tells no secret. */
function isError(kind: ObjectErrorKind, pattern: RegExp) {
  return (error: Error & { kind?: string }) => {
    assert.equal(error.name, 'ObjectError', String(error.stack));
    assert.equal(error.kind, kind);
    assert.match(error.message, pattern);
    const told = `${error.message} ${error.stack} ${JSON.stringify(error)} ${String(error.cause)}`;
    for (const secret of [S3_CREDENTIALS.secretAccessKey, 'wrong-secret']) assert.ok(!told.includes(secret), told);
    return true;
  };
}

if (hasS3) {
  describe('object storage in S3', { timeout: 240_000 }, () => {
    let target: ObjectTarget;
    let server: S3Server;
    let objects: ObjectStore;

    const open = (options: Partial<Parameters<typeof createS3Objects>[0]> = {}) => {
      const { bucket, endpoint } = server;
      const credentials = S3_CREDENTIALS;
      const whole = { bucket, prefix: 'coppice', region: 'us-east-1', endpoint, credentials, limits: LIMITS };
      return createS3Objects({ ...whole, ...options });
    };
    const gather = async (key: string) => {
      const pieces: Buffer[] = [];
      for await (const piece of objects.getStream(key)) pieces.push(piece);
      return Buffer.concat(pieces);
    };

    before(async () => {
      target = await makeS3Target();
      server = target.server!;
      objects = open();
      await objects.put('small', Buffer.from('small'));
    });
    after(() => target?.remove());

    it('that is down or never answers is unreachable, and is back when it is', async () => {
      const hasty = open({ limits: HASTY });
      for (const fault of [{ kind: 'down' }, { kind: 'silent' }] as const) {
        server.proxy.set(fault);
        const unreachable = isError('unreachable', /^s3:\/\/coppice\/coppice cannot be reached, or is too slow/);
        await assert.rejects(hasty.get('small'), unreachable);
        await assert.rejects(hasty.put('small', Buffer.from('other')), unreachable);
        await assert.rejects(hasty.find('small'), unreachable);
        await assert.rejects(hasty.check(), unreachable);
        server.proxy.set({ kind: 'none' });
        assert.equal((await objects.get('small')).toString(), 'small');
      }
    });

    it('that nobody listens for is unreachable', async () => {
      await assert.rejects(open({ endpoint: 'http://127.0.0.1:1' }).check(), isError('unreachable', /ECONNREFUSED/));
      await assert.rejects(
        open({ endpoint: 'http://nowhere.invalid' }).check(),
        isError('unreachable', /ENOTFOUND|EAI/),
      );
    });

    it('that is busy for a moment is asked again', async () => {
      for (const kind of ['busy', 'down'] as const) {
        server.proxy.set({ kind, times: 3 });
        await objects.put('busy', Buffer.from('stored all the same'));
        server.proxy.set({ kind, times: 3 });
        assert.equal((await objects.get('busy')).toString(), 'stored all the same');
      }
    });

    it('that stays busy is unreachable, after a bounded number of attempts', async () => {
      const before = server.proxy.connections();
      server.proxy.set({ kind: 'busy' });
      await assert.rejects(objects.put('never', Buffer.from('x')), isError('unreachable', /503/));
      assert.ok(server.proxy.connections() - before <= LIMITS.attempts);
      server.proxy.set({ kind: 'none' });
      assert.equal(await objects.find('never'), undefined);
    });

    it('that breaks off in the middle is read on from there, or is unreachable', async () => {
      const bytes = randomBytes(20 * MIB);
      await objects.put('long', bytes);
      server.proxy.set({ kind: 'cut', after_bytes: 3 * MIB, times: 3 });
      assert.ok((await gather('long')).equals(bytes));
      server.proxy.set({ kind: 'cut', after_bytes: 3 * MIB });
      await assert.rejects(objects.get('long'), isError('unreachable', /of 20971520 bytes of long came/));
      server.proxy.set({ kind: 'none' });
      assert.ok((await objects.get('long')).equals(bytes));
    });

    it('whose answer to a finished upload is lost has it all the same', async () => {
      const bytes = randomBytes(20 * MIB);
      const source = async function* () {
        yield bytes;
      };
      // One request begins it, two send parts, the fourth ends it.
      const before = server.proxy.connections();
      server.proxy.set({ kind: 'cut', after_bytes: 5, times: 1, skip: 3 });
      await objects.putStream('parts', source());
      assert.ok(server.proxy.connections() - before > 4);
      assert.ok((await objects.get('parts')).equals(bytes));
    });

    it('that refuses says what to do', async () => {
      const wrong = { ...S3_CREDENTIALS, secretAccessKey: 'wrong-secret' };
      const unknown = { accessKeyId: 'nobody', secretAccessKey: 'wrong-secret' };
      for (const credentials of [wrong, unknown]) {
        for (const use of [
          (store: ObjectStore) => store.check(),
          (store: ObjectStore) => store.put('small', Buffer.from('other')),
          (store: ObjectStore) => store.get('small'),
          (store: ObjectStore) => store.find('small'),
          (store: ObjectStore) => store.ensureRemoved(['small']),
        ]) {
          await assert.rejects(
            use(open({ credentials })),
            isError('refused', /does not know the access key, or the secret/),
          );
        }
      }
      const elsewhere = open({ bucket: 'no-such-bucket' });
      const noBucket = isError('refused', /there is no bucket no-such-bucket; make it, or correct COPPICE_OBJECTS/);
      await assert.rejects(elsewhere.check(), noBucket);
      await assert.rejects(elsewhere.find('small'), noBucket);
      await assert.rejects(elsewhere.put('small', Buffer.from('x')), noBucket);
      await assert.rejects(elsewhere.get('small'), noBucket);
      assert.equal((await objects.get('small')).toString(), 'small');
    });

    it('that confirms no checksum is not trusted with anything', async () => {
      // It takes whatever it is given, and says nothing about it.
      const careless = createServer((request, response) => {
        request.resume().on('end', () => response.writeHead(200, { 'content-length': 0 }).end());
      }).listen(0, '127.0.0.1');
      await once(careless, 'listening');
      const endpoint = `http://127.0.0.1:${(careless.address() as AddressInfo).port}`;
      const refused = isError('refused', /it does not confirm what it stores by SHA-256/);
      await assert.rejects(open({ endpoint }).put('any', Buffer.from('x')), refused);
      careless.closeAllConnections();
      careless.close();
      await once(careless, 'close');
    });
  });
}
