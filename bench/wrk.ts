import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** A request that is sent again and again, in plain ASCII. */
export interface Request {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface Answered {
  readonly per_second: number;
  readonly p50_ms: number;
}

/**
 * POSTs the request over so many kept connections for a while, each waiting for its answer, by the program wrk. Throws when one
 * was not answered by a 2xx or 3xx.
 */
export async function runWrk(
  request: Request,
  { connections, seconds }: { connections: number; seconds: number },
): Promise<Answered> {
  await tryOnce(request);
  const directory = await mkdtemp(join(tmpdir(), 'wrk-'));
  try {
    const script = join(directory, 'request.lua');
    await writeFile(script, scriptOf(request), { mode: 0o600 });
    const how = ['-t', '1', '-c', String(connections), '-d', `${seconds}s`, '-s', script, request.url];
    const { stdout } = await run('wrk', how).catch((error) => {
      if (error.code === 'ENOENT') throw new Error('wrk is missing: install the package wrk');
      throw error;
    });
    return readResult(stdout);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** wrk does not show what was answered. */
async function tryOnce({ url, headers, body }: Request): Promise<void> {
  const response = await fetch(url, { method: 'POST', headers, body });
  const text = await response.text();
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${text}`);
}

/** What JSON escapes in plain ASCII, Lua reads in the same way. */
const quoted = (text: string): string => JSON.stringify(text);

function scriptOf({ headers, body }: Request): string {
  return [
    `wrk.method = "POST"`,
    `wrk.body = ${quoted(body)}`,
    ...Object.entries(headers).map(([name, value]) => `wrk.headers[${quoted(name)}] = ${quoted(value)}`),
    'function done(summary, latency)',
    '  local e = summary.errors',
    '  local failed = e.connect + e.read + e.write + e.status + e.timeout',
    '  print(string.format("result %d %d %d %d", summary.requests, summary.duration, latency:percentile(50), failed))',
    'end',
  ].join('\n');
}

/** Durations are in microseconds. */
function readResult(output: string): Answered {
  const [, requests, duration_us, p50_us, failed] = /^result (\d+) (\d+) (\d+) (\d+)$/m.exec(output) ?? [];
  if (failed !== '0' || Number(requests) === 0) throw new Error(`wrk said:\n${output}`);
  return { per_second: (Number(requests) * 1e6) / Number(duration_us), p50_ms: Number(p50_us) / 1000 };
}
