import type { Module } from './module.ts';
import { isCode, type SourceFile } from './source-tree.ts';

export const LONGEST_FILE_LINES = 500;
export const LONGEST_FUNCTION_LINES = 70;
/** Longer files are listed, not refused. */
export const COMFORTABLE_FILE_LINES = 300;

export const lineCount = (text: string): number => text.split('\n').length - (text.endsWith('\n') ? 1 : 0);

/** Files of code that are too long. */
export function fileSizeProblems(files: readonly SourceFile[]): string[] {
  return files
    .filter((file) => isCode(file) && lineCount(file.text) > LONGEST_FILE_LINES)
    .map(({ path, text }) => `${path} has ${lineCount(text)} lines; ${LONGEST_FILE_LINES} is the most`);
}

/** Functions that are too long. */
export function functionSizeProblems(modules: readonly Module[]): string[] {
  return modules.flatMap(({ path, functions }) =>
    functions
      .filter(({ lines }) => lines > LONGEST_FUNCTION_LINES)
      .map(
        ({ name, line, lines }) => `${path}:${line} ${name} has ${lines} lines; ${LONGEST_FUNCTION_LINES} is the most`,
      ),
  );
}
