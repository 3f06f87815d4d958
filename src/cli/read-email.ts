import { InvalidArgumentError } from 'commander';
import { emailProblem } from '../domain/names.ts';

/** The address of a user as it is typed; commander tells people what is wrong with it. */
export function readEmail(text: string): string {
  const problem = emailProblem(text);
  if (problem) throw new InvalidArgumentError(`"${text}" ${problem}.`);
  return text;
}
