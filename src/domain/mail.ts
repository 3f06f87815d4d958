/** A letter to one person. */
export interface Letter {
  /** An address that `canBeMailed`. */
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

/** Sends a letter; rejects when it was not taken. */
export type SendLetter = (letter: Letter) => Promise<void>;

/**
 * Whether letters are sent to an address. What quotes, lists and comments are made of is left out: such an address is legal, and
 * nobody has one but to make a letter go elsewhere.
 */
export const canBeMailed = (address: string): boolean =>
  /^[\p{L}\p{N}.!#$%&'*+/=?^_`{|}~-]{1,64}@(?=.{1,190}$)[\p{L}\p{N}-]+(\.[\p{L}\p{N}-]+)*$/u.test(address);
