import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type FaultyProxy, startFaultyProxy } from './faulty-proxy.ts';
import { until } from './until.ts';
import { versitygw } from './versitygw.ts';

const PROGRAM = await versitygw();
/** Whether there is an S3 server to test on; where there is none, a line has said so. */
export const hasS3 = PROGRAM !== undefined;

export const S3_CREDENTIALS = { accessKeyId: 'coppice-tests', secretAccessKey: 'a-secret-of-the-tests' };

/** An S3 server on plain files, with a proxy before it that can be told to fail. */
export interface S3Server {
  /** `http://127.0.0.1:40123` */
  readonly endpoint: string;
  /** There is a bucket of this name. */
  readonly bucket: string;
  readonly proxy: FaultyProxy;
  /** For a Coppice that shall use it. */
  readonly env: Readonly<Record<string, string>>;
  /** Where an object lies. */
  path(name: string): string;
  stop(): Promise<void>;
}

/** Only where `hasS3`. */
export async function startS3Server(): Promise<S3Server> {
  // Short, since it holds a socket.
  const directory = await mkdtemp(join(tmpdir(), 's3-'));
  const objects = join(directory, 'objects');
  const bucket = 'coppice';
  await mkdir(join(objects, bucket), { recursive: true });
  const socket = join(directory, 's');
  const child = run(['--port', socket, '--quiet', 'posix', objects]);
  await until(() => existsSync(socket) || child.exitCode !== null, { what: 'the S3 server to listen' });
  const proxy = await startFaultyProxy(socket);
  const endpoint = `http://127.0.0.1:${proxy.port}`;
  const { accessKeyId, secretAccessKey } = S3_CREDENTIALS;
  return {
    endpoint,
    bucket,
    proxy,
    env: {
      COPPICE_S3_ENDPOINT: endpoint,
      COPPICE_OBJECTS: `s3://${bucket}/coppice`,
      AWS_ACCESS_KEY_ID: accessKeyId,
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
    },
    path: (name) => join(objects, bucket, name),
    stop: async () => {
      await proxy.stop();
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGKILL');
        await once(child, 'exit');
      }
      await rm(directory, { recursive: true, force: true });
    },
  };
}

function run(words: readonly string[]): ChildProcess {
  const { accessKeyId, secretAccessKey } = S3_CREDENTIALS;
  return spawn(PROGRAM!, words, {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ROOT_ACCESS_KEY_ID: accessKeyId, ROOT_SECRET_ACCESS_KEY: secretAccessKey },
  });
}
