import type { Command } from 'commander';
import type { Settings } from '../domain/settings.ts';

/** One thing that was looked at. */
export interface Finding {
  readonly subject: string;
  /** `worse`: it works, with less than it could. */
  readonly verdict: 'good' | 'worse' | 'broken';
  readonly text: string;
  /** What the person can do about it. */
  readonly advice?: string;
}

interface DoctorContext {
  readonly settings: () => Settings;
  readonly diagnose: (settings: Settings) => Promise<Finding[]>;
  readonly print: (text: string) => void;
}

const MARKS = { good: 'ok  ', worse: 'note', broken: 'BAD ' } as const;

/** Adds `doctor`. Exit code 1 when something is broken. */
export function registerDoctor(program: Command, { settings, diagnose, print }: DoctorContext): void {
  program
    .command('doctor')
    .description('look at this machine and this installation, and say what could be better')
    .action(async () => {
      const findings = await diagnose(settings());
      for (const { subject, verdict, text, advice } of findings) {
        print(`${MARKS[verdict]}  ${subject}: ${text}\n`);
        if (advice) print(`      ${advice}\n`);
      }
      if (findings.some(({ verdict }) => verdict === 'broken')) process.exitCode = 1;
    });
}
