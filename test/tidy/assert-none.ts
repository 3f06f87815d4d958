import { AssertionError } from 'node:assert';

/** Fails with every problem on a line of its own; an ordinary comparison would cut the list short. */
export function assertNone(problems: readonly string[]): void {
  if (problems.length === 0) return;
  throw new AssertionError({
    message: `${problems.length} found\n${problems.map((problem) => `- ${problem}`).join('\n')}`,
    stackStartFn: assertNone,
  });
}
