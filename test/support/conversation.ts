import { parseErrorFields } from '../../src/wire/backend-messages.ts';
import { cstring, message } from '../../src/wire/message.ts';
import type { WireClient } from './wire-client.ts';

/** Messages of the extended protocol, and short forms of what a server answers. */

export const NOTHING = Buffer.alloc(0);
export const SYNC = message('S', NOTHING);
export const FLUSH = message('H', NOTHING);
export const EXECUTE = message('E', Buffer.concat([cstring(''), Buffer.alloc(4)]));
export const parse = (name: string, text: string, types: readonly number[] = []) => {
  const tail = Buffer.alloc(2 + 4 * types.length);
  tail.writeInt16BE(types.length);
  for (const [index, type] of types.entries()) tail.writeInt32BE(type, 2 + 4 * index);
  return message('P', Buffer.concat([cstring(name), cstring(text), tail]));
};
export const bind = (name: string, values: readonly string[] = []) => {
  const parts = values.map((value) => {
    const bytes = Buffer.alloc(4 + value.length);
    bytes.writeInt32BE(value.length);
    bytes.write(value, 4);
    return bytes;
  });
  const count = Buffer.alloc(2);
  count.writeInt16BE(values.length);
  return message('B', Buffer.concat([cstring(''), cstring(name), Buffer.alloc(2), count, ...parts, Buffer.alloc(2)]));
};
export const close = (name: string) => message('C', Buffer.concat([Buffer.from('S'), cstring(name)]));
export const describeStatement = (name: string) => message('D', Buffer.concat([Buffer.from('S'), cstring(name)]));

/** Types of the messages up to ReadyForQuery, whatever they are, with the values of rows and the codes of errors. */
export async function answer(wire: WireClient): Promise<string[]> {
  const seen: string[] = [];
  for (;;) {
    const received = await wire.message();
    if (!received) return [...seen, 'closed'];
    const { letter, body } = received;
    if (letter === 'E') seen.push(`E${parseErrorFields(body).code}`);
    else if (letter === 'D') seen.push(`D${body.subarray(6).toString()}`);
    else if (letter === 'Z') return [...seen, `Z${body.toString()}`];
    else seen.push(letter);
  }
}

/** Sends, and gives the answer. */
export const ask = (wire: WireClient, ...parts: Buffer[]): Promise<string[]> => {
  wire.send(...parts);
  return answer(wire);
};
