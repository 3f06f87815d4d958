import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PUBLIC_OPERATIONS, type PublicOperation } from '../src/api/public-operations.ts';
import { ERRORS, type ErrorKind } from '../src/domain/errors.ts';
import { OPERATION_KINDS, type OperationKind } from '../src/domain/operation-kinds.ts';
import { PG_SETTINGS, type PgSettingType } from '../src/domain/pg-settings.ts';
import { SETTINGS, type Setting, type SettingName, settingFlag, settingVariable } from '../src/domain/settings.ts';
import { METRICS, type MetricKind } from '../src/watch/metric-table.ts';

/**
 * Writes the tables of the documents from the tables of the product: `npm run docs`. A document marks the place with
 * `<!-- generated: <name> -->` and `<!-- end of generated -->`; a test compares.
 */

const END = '<!-- end of generated -->';
const marker = (name: string): string => `<!-- generated: ${name}; written by npm run docs -->`;

function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(heads), line(heads.map(() => '---')), ...rows.map(line)].join('\n');
}

function defaultText({ default: value, default_text: text }: Setting): string {
  if (text !== undefined) return text;
  return typeof value === 'string' ? `\`${value}\`` : '';
}

function settingsTable(): string {
  const rows = (Object.entries(SETTINGS) as [SettingName, Setting][]).map(([name, setting]) => [
    `${setting.secret ? '' : `\`${settingFlag(name)}\`<br>`}\`${settingVariable(name)}\``,
    setting.allowed ? setting.allowed.map((word) => `\`${word}\``).join(', ') : setting.type.replaceAll('_', ' '),
    defaultText(setting),
    `${setting.description}${setting.secret ? ' Secret, so a variable alone: flags show in the process list.' : ''}`,
  ]);
  return table(['Flag and variable', 'Value', 'Default', 'What it does'], rows);
}

const RETRY_TEXT: Readonly<Record<ErrorKind['retry'], string>> = {
  never: 'no',
  after_change: 'after a change',
  safe: 'yes',
};

function errorsTable(): string {
  const rows = Object.entries(ERRORS)
    .map(([name, kind]: [string, ErrorKind]) => ({ name, kind }))
    .sort((a, b) => a.kind.status - b.kind.status || a.name.localeCompare(b.name))
    .map(({ name, kind }) => [
      String(kind.status),
      `\`${name}\``,
      kind.code ? `\`${kind.code}\`` : '',
      kind.message.replace(/\{(\w+)\}/g, '*$1*'),
      RETRY_TEXT[kind.retry],
    ]);
  return table(['Status', 'Name', 'Code', 'Message', 'Worth repeating'], rows);
}

function duration(ms: number): string {
  return ms % 60_000 === 0 ? `${ms / 60_000} min` : `${ms / 1000} s`;
}

function operationsTable(): string {
  const rows = Object.entries(OPERATION_KINDS).map(([action, kind]: [string, OperationKind]) => [
    `\`${action}\``,
    kind.title,
    Object.entries(kind.claims)
      .map(([what, mode]) => `${what} (${mode})`)
      .join(', '),
    String(kind.attempts),
    duration(kind.deadline_ms),
  ]);
  return table(['Action', 'Title', 'Claims', 'Attempts', 'Deadline of one'], rows);
}

function pgSettingText(value: PgSettingType): string {
  if (value.type === 'bool') return 'on, off';
  if (value.type === 'enum') return value.values.join(', ');
  return `${value.type}, ${value.min} to ${value.max}${value.unit ? ` ${value.unit}` : ''}`;
}

function pgSettingsTable(): string {
  const rows = [...PG_SETTINGS].map(([name, { value, restart }]) => [
    `\`${name}\``,
    pgSettingText(value),
    restart ? 'restart' : 'at once',
  ]);
  return table(['Name', 'Value', 'Takes effect'], rows);
}

function metricsTable(): string {
  const rows = Object.entries(METRICS).map(([name, { type, help, labels }]: [string, MetricKind]) => [
    `\`${name}\``,
    type,
    labels.map((label) => `\`${label}\``).join(', '),
    help,
  ]);
  return table(['Name', 'Type', 'Labels', 'What it says'], rows);
}

function publicOperationText(row: PublicOperation): readonly [here: string, remark: string] {
  switch (row.answer) {
    case 'served':
      return ['served', ''];
    case 'degraded':
      return ['degraded', row.how];
    case 'not_enabled':
      return ['refused: 404 `is not enabled`', row.why];
    case 'not_available':
      return ['refused: 501 `is not available`', row.why];
    case 'no_route':
      return ['refused: 404 `this route does not exist`', row.why];
  }
}

function publicOperationsTable(): string {
  const rows = Object.entries(PUBLIC_OPERATIONS).map(([name, row]) => [`\`${name}\``, ...publicOperationText(row)]);
  return table(['Operation', 'Here', 'How or why'], rows);
}

interface GeneratedPart {
  readonly path: string;
  readonly name: string;
  readonly text: string;
}

/** Every generated part with the document it belongs to. */
export function generatedParts(): GeneratedPart[] {
  return [
    { path: 'docs/compatibility.md', name: 'public-operations', text: publicOperationsTable() },
    { path: 'docs/gateway.md', name: 'metrics', text: metricsTable() },
    { path: 'docs/settings.md', name: 'settings', text: settingsTable() },
    { path: 'docs/errors.md', name: 'errors', text: errorsTable() },
    { path: 'docs/operations.md', name: 'operations', text: operationsTable() },
    { path: 'docs/postgres-settings.md', name: 'postgres-settings', text: pgSettingsTable() },
  ];
}

/** The document with the part in its place; throws when it has no such place. */
export function withPart(document: string, { path, name, text }: GeneratedPart): string {
  const start = document.indexOf(marker(name));
  const end = document.indexOf(END, start);
  if (start < 0 || end < 0) throw new Error(`${path} has no place for "${name}"; put in: ${marker(name)} ${END}`);
  return `${document.slice(0, start)}${marker(name)}\n\n${text}\n\n${document.slice(end)}`;
}

if (import.meta.main) {
  for (const part of generatedParts()) {
    const path = join(import.meta.dirname, '..', part.path);
    writeFileSync(path, withPart(readFileSync(path, 'utf8'), part));
  }
}
