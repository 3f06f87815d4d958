import { StringDecoder } from 'node:string_decoder';
import { InvalidArgumentError } from 'commander';
import { passwordProblem } from '../domain/passwords.ts';

/** Where a password comes from: a terminal, or a pipe. */
export interface PasswordInput extends NodeJS.ReadableStream {
  readonly isTTY?: boolean;
  setRawMode?(raw: boolean): unknown;
}

const PIPED_BYTES_MAX = 4_096;
const [ENTER, END_OF_INPUT, INTERRUPT, BACKSPACE, DELETE] = ['\r', '\u0004', '\u0003', '\b', '\u007f'];

/**
 * A new password: asked for twice on a terminal, which shows nothing of it, or the first line of what is piped in. Throws
 * InvalidArgumentError for what cannot be one.
 */
export async function readPassword(input: PasswordInput, show: (text: string) => void): Promise<string> {
  const password = input.isTTY ? await ask(input, 'Password: ', show) : await readPiped(input);
  const problem = passwordProblem(password);
  if (problem) throw new InvalidArgumentError(`A password ${problem}.`);
  if (input.isTTY && (await ask(input, 'The same again: ', show)) !== password) {
    throw new InvalidArgumentError('The two passwords differ.');
  }
  return password;
}

async function readPiped(input: PasswordInput): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of input) {
    chunks.push(Buffer.from(chunk));
    bytes += chunk.length;
    if (bytes > PIPED_BYTES_MAX) break;
  }
  return Buffer.concat(chunks).toString().split(/\r?\n/, 1)[0]!;
}

/** A line that is typed and not shown. */
async function ask(input: PasswordInput, prompt: string, show: (text: string) => void): Promise<string> {
  show(prompt);
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const decoder = new StringDecoder('utf8');
  let typed: string[] = [];
  const take = (chunk: Buffer | string) => {
    for (const character of decoder.write(Buffer.from(chunk))) {
      if (character === ENTER || character === '\n' || character === END_OF_INPUT) return resolve(typed.join(''));
      if (character === INTERRUPT) return reject(new InvalidArgumentError('Nothing was changed.'));
      if (character === BACKSPACE || character === DELETE) typed = typed.slice(0, -1);
      else typed.push(character);
    }
  };
  input.setRawMode?.(true);
  input.on('data', take);
  input.resume();
  try {
    return await promise;
  } finally {
    input.off('data', take);
    input.pause();
    input.setRawMode?.(false);
    show('\n');
  }
}
