import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const RENDER_MAX_MS = 90_000;
/** Of the page's own clock, which runs as fast as the page has work. */
const SETTLED_AFTER_MS = 20_000;

export interface RenderedPage {
  /** The document as it stands when the page has come to rest. */
  readonly html: string;
  /** What the page, or the browser about it, wrote on the console. */
  readonly console: readonly string[];
}

/** False where there is no browser to try pages with, or a reason. */
export const cannotRender: string | false = await run('which', ['chromium']).then(
  () => false as const,
  () => 'there is no chromium here',
);

/** Opens a page in a browser of its own, without a window. */
export async function renderPage(url: string): Promise<RenderedPage> {
  const profile = await mkdtemp(join(tmpdir(), 'chromium-'));
  try {
    const { stdout, stderr } = await run(
      'chromium',
      [
        '--headless',
        // Root has no sandbox to run it in.
        '--no-sandbox',
        '--disable-gpu',
        '--disable-dev-shm-usage',
        '--disable-breakpad',
        '--no-first-run',
        `--user-data-dir=${profile}`,
        '--enable-logging=stderr',
        `--virtual-time-budget=${SETTLED_AFTER_MS}`,
        '--dump-dom',
        url,
      ],
      {
        timeout: RENDER_MAX_MS,
        maxBuffer: 64 * 1024 ** 2,
        env: { PATH: process.env.PATH, HOME: profile, TMPDIR: profile },
      },
    );
    return { html: stdout, console: stderr.split('\n').filter((line) => /CONSOLE[:(]/.test(line)) };
  } finally {
    await rm(profile, { recursive: true, force: true, maxRetries: 5 });
  }
}
