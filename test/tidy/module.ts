import { posix } from 'node:path';
import { parseSync } from 'oxc-parser';
import type { SourceFile } from './source-tree.ts';

export interface ModuleImport {
  /** As written. */
  readonly specifier: string;
  /** The project's file it names; undefined for packages and built-ins. */
  readonly path?: string;
  /** Imported names; `*` for all of them, `default` for the default export. */
  readonly names: readonly string[];
}

export interface ModuleExport {
  readonly name: string;
  readonly isType: boolean;
  readonly line: number;
  /** The comment right above it. */
  readonly comment: string;
}

export interface FunctionRange {
  readonly name: string;
  readonly line: number;
  readonly lines: number;
}

/** What the rules need to know of a file of code. */
export interface Module {
  readonly path: string;
  readonly text: string;
  /** Of every kind: values, types, re-exports, `import()` of both sorts. */
  readonly imports: readonly ModuleImport[];
  readonly exports: readonly ModuleExport[];
  readonly functions: readonly FunctionRange[];
}

interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [key: string]: unknown;
}

const isNode = (value: unknown): value is Node => typeof (value as Node | null)?.type === 'string';

function walk(node: Node, parent: Node | undefined, visit: (node: Node, parent: Node | undefined) => void): void {
  visit(node, parent);
  for (const value of Object.values(node)) {
    for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) walk(child, node, visit);
  }
}

const FUNCTIONS = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression']);

/** The name a reader would call the function by. */
function functionName(node: Node, parent: Node | undefined): string {
  const named = [node.id, parent?.id, parent?.key].find(isNode);
  return typeof named?.name === 'string' ? named.name : 'function';
}

/** `describe(...)`, and what is named after it, holds tests as a file does; its length is the file's. */
function isDescribeCallback(parent: Node | undefined): boolean {
  const callee = parent?.type === 'CallExpression' && isNode(parent.callee) ? parent.callee : undefined;
  return /^(describe|suite)([A-Z]|$)/.test(String(callee?.name));
}

function resolvePath(from: string, specifier: string): string | undefined {
  return specifier.startsWith('.') ? posix.join(posix.dirname(from), specifier) : undefined;
}

function lineOf(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length;
}

function readExports(text: string, parsed: ReturnType<typeof parseSync>): ModuleExport[] {
  return parsed.module.staticExports.flatMap(({ start, entries }) => {
    const above = parsed.comments.findLast((comment) => comment.end <= start);
    const comment = above && text.slice(above.end, start).trim() === '' ? above.value : '';
    return entries
      .filter((entry) => entry.exportName.kind !== 'None')
      .map((entry) => ({
        name: entry.exportName.name ?? 'default',
        isType: entry.isType,
        line: lineOf(text, start),
        comment,
      }));
  });
}

/** Parses a file; throws on one that is not valid. */
export function readModule({ path, text }: SourceFile): Module {
  const parsed = parseSync(path, text);
  if (parsed.errors.length > 0) throw new Error(`${path} does not parse: ${parsed.errors[0]?.message}`);
  const imports: ModuleImport[] = [];
  const add = (specifier: string, names: readonly string[]): void => {
    imports.push({ specifier, path: resolvePath(path, specifier), names });
  };
  for (const { moduleRequest, entries } of parsed.module.staticImports) {
    const names = entries.map(({ importName }) => importName.name ?? (importName.kind === 'Default' ? 'default' : '*'));
    add(moduleRequest.value, names);
  }
  for (const entry of parsed.module.staticExports.flatMap(({ entries }) => entries)) {
    if (entry.moduleRequest) add(entry.moduleRequest.value, [entry.importName.name ?? '*']);
  }
  const functions: FunctionRange[] = [];
  walk(parsed.program as unknown as Node, undefined, (node, parent) => {
    if ((node.type === 'ImportExpression' || node.type === 'TSImportType') && isNode(node.source)) {
      if (typeof node.source.value === 'string') add(node.source.value, ['*']);
    }
    if (FUNCTIONS.has(node.type) && !isDescribeCallback(parent)) {
      const line = lineOf(text, node.start);
      functions.push({ name: functionName(node, parent), line, lines: lineOf(text, node.end) - line + 1 });
    }
  });
  return { path, text, imports, exports: readExports(text, parsed), functions };
}
