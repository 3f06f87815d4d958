import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { choosePort } from '../../src/main/ports.ts';
import { chownTree } from '../../src/postgres/initdb.ts';
import type { Cluster } from './postgres.ts';
import { until } from './until.ts';

/** A server that knows nothing of Coppice, on a data directory that came from it. */
export interface StockServer {
  /** `postgres://127.0.0.1:<port>`, to put a user and a database into. */
  readonly port: number;
  /** Standard error so far. */
  log(): string;
  stop(): Promise<void>;
}

/**
 * Recovers a data directory as the manual says, with its own configuration and `restore_command`, and waits until the server
 * has left recovery.
 */
export async function startStockServer(
  { distribution, owner }: Pick<Cluster, 'distribution' | 'owner'>,
  { directory, restore_command, env }: { directory: string; restore_command: string; env: NodeJS.ProcessEnv },
): Promise<StockServer> {
  await writeFile(join(directory, 'recovery.signal'), '');
  const command = restore_command.replaceAll("'", "''");
  const port = await choosePort(['127.0.0.1'], 0, '');
  await appendFile(
    join(directory, 'postgresql.auto.conf'),
    `restore_command = '${command}'\nport = ${port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\n`,
  );
  await chmod(directory, 0o700);
  if (owner) await chownTree(directory, owner);
  const child = spawn(join(distribution.root, 'bin/postgres'), ['-D', directory], {
    ...owner,
    env,
    cwd: '/',
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    log += text;
  });
  const ended = () => child.exitCode !== null || child.signalCode !== null;
  const ready = () => log.includes('database system is ready to accept connections') || ended();
  await until(ready, { what: 'the server to leave recovery', timeout_ms: 60_000 }).catch(async (error) => {
    await stop(child);
    throw new Error(`${error.message}\n${log}`);
  });
  if (ended()) throw new Error(`the server ended:\n${log}`);
  return { port, log: () => log, stop: () => stop(child) };
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGINT');
  await ended;
}
