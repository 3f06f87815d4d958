import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, it } from 'node:test';
import { refusals } from '../../src/gateway/refusal.ts';

/** What stands in a text for what a client gave. */
const HOLE = '…';

describe('what the gateway refuses', async () => {
  const documented = await readFile(new URL('../../docs/gateway.md', import.meta.url), 'utf8');
  const lines = documented.split('\n');

  for (const [name, refuse] of Object.entries(refusals)) {
    it(`is explained, with its code: ${name}`, () => {
      const make = refuse as (...parts: unknown[]) => Error & { code: string };
      // Numbers of the texts are the defaults of the limits, or left out.
      const parts = name === 'poolWaitTimeout' ? [120_000] : [HOLE, HOLE];
      const { code, message } = make(...parts);
      const told = message.split(/\. Connect to the host name|(?<=the token is not valid: )/)[0]!;
      const found = lines.some((line) => line.startsWith('|') && line.includes(told) && line.includes(`\`${code}\``));
      assert.ok(found, `docs/gateway.md has no line for ${code} ${message}`);
    });
  }
});
