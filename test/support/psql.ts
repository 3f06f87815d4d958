import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const execute = promisify(execFile);

/** What a statement prints through psql, which is found on the path. */
export async function psql(uri: string, sql: string): Promise<string> {
  const { stdout } = await execute('psql', [uri, '-X', '-A', '-t', '-v', 'ON_ERROR_STOP=1', '-c', sql]);
  return stdout.trim();
}
