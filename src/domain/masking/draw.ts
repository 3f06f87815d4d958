import { createHmac, randomInt } from 'node:crypto';

/** A whole number from 0 up to, and without, `below`, which is at most 2^47. */
export type Draw = (below: number) => number;

export const DRAW_MAX = 2 ** 47;

/** By chance: nothing follows from what was there before. */
export const drawAtRandom: Draw = (below) => randomInt(below);

/**
 * The same numbers for the same seed and key, which is a secret: without it nobody can try which seed a value comes
 * from. Each number takes 6 of the 32 bytes that the key gives of the seed and a count.
 */
export function drawFrom(key: Buffer, seed: string): Draw {
  let block = Buffer.alloc(0);
  let [at, count] = [0, 0];
  return (below) => {
    if (at + 6 > block.length) {
      block = createHmac('sha256', key).update(`${count}:${seed}`).digest();
      [at, count] = [0, count + 1];
    }
    const number = block.readUIntBE(at, 6);
    at += 6;
    return number % below;
  };
}

export const pick = <T>(draw: Draw, from: readonly T[]): T => from[draw(from.length)]!;

const DIGITS = '0123456789';
const UPPER = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';

export const drawText = (draw: Draw, alphabet: string, length: number): string => {
  let text = '';
  for (let at = 0; at < length; at++) text += alphabet[draw(alphabet.length)];
  return text;
};

export const digits = (draw: Draw, length: number): string => drawText(draw, DIGITS, length);
export const letters = (draw: Draw, length: number): string => drawText(draw, UPPER, length);
export const lettersAndDigits = (draw: Draw, length: number): string => drawText(draw, UPPER + DIGITS, length);
