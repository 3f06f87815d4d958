import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { describe, it } from 'node:test';
import { readPassword } from '../../../src/cli/read-password.ts';

/** What types the lines at a terminal, and remembers whether that would have shown them. */
function typist(...lines: string[]) {
  const input = Object.assign(new PassThrough(), {
    isTTY: true,
    raw: false,
    setRawMode: (raw: boolean) => {
      input.raw = raw;
    },
  });
  const shown: string[] = [];
  const show = (text: string) => {
    shown.push(text);
    const line = text.endsWith(': ') ? lines.shift() : undefined;
    if (line === undefined) return;
    setImmediate(() => {
      assert.equal(input.raw, true, 'the terminal would show what is typed');
      input.write(line);
    });
  };
  return { input, shown, show };
}

const piped = (text: string) => {
  const input = new PassThrough();
  input.end(text);
  return input;
};

describe('a password that is read', () => {
  it('is typed twice, and seen nowhere', async () => {
    const { input, shown, show } = typist('correct horsé\r', 'correct horsé\r');
    assert.equal(await readPassword(input, show), 'correct horsé');
    assert.deepEqual(shown, ['Password: ', '\n', 'The same again: ', '\n']);
    assert.equal(input.raw, false);
  });

  it('can be corrected while it is typed', async () => {
    const { input, show } = typist('correct horsx\u007fe\r', 'correct\b\bct horse\r');
    assert.equal(await readPassword(input, show), 'correct horse');
  });

  it('is refused when the second time differs, when it is too short, and when it is broken off', async () => {
    const refused = async (expected: RegExp, ...lines: string[]) => {
      const { input, show } = typist(...lines);
      await assert.rejects(readPassword(input, show), expected);
      assert.equal(input.raw, false, 'the terminal is left as it was');
    };
    await refused(/differ/, 'correct horse\r', 'correct house\r');
    await refused(/at least 12 characters/, 'short\r');
    await refused(/Nothing was changed/, 'correct\u0003');
  });

  it('is the first line of what is piped in', async () => {
    for (const text of ['correct horse', 'correct horse\n', 'correct horse\r\nand more\n']) {
      assert.equal(await readPassword(piped(text), () => assert.fail('nothing is asked')), 'correct horse');
    }
    await assert.rejects(
      readPassword(piped(''), () => undefined),
      /at least 12/,
    );
    await assert.rejects(
      readPassword(piped('x'.repeat(100_000)), () => undefined),
      /at most 200/,
    );
  });
});
