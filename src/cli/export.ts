import { type Command, InvalidArgumentError } from 'commander';
import type { Settings } from '../domain/settings.ts';

export interface ExportRequest {
  /** Id or name; the default branch where none is given. */
  readonly project: string;
  readonly branch?: string;
  /** `s3://bucket/prefix` or an absolute directory. */
  readonly place: string;
  readonly server_name?: string;
}

/** What was written. */
export interface ExportReport {
  readonly place: string;
  readonly server_name: string;
  readonly backup_id: string;
  readonly branch_name: string;
  /** Of the archive of the base. */
  readonly bytes: number;
  readonly server_version: number;
  readonly last_segment: string;
  /** The branch has a role `postgres` of the customer's, which is no superuser. */
  readonly lacks_superuser: boolean;
}

interface ExportContext {
  readonly settings: () => Settings;
  readonly exportBranch: (
    settings: Settings,
    request: ExportRequest,
    told: (progress: string) => void,
  ) => Promise<ExportReport>;
  readonly print: (text: string) => void;
}

/** Adds `export`. */
export function registerExport(program: Command, { settings, exportBranch, print }: ExportContext): void {
  program
    .command('export')
    .description("copy a branch into barman's cloud layout, for CloudNativePG or any Postgres; Coppice must be running")
    .argument('<project>', 'its id or name')
    .argument('<place>', 's3://bucket/prefix, or the absolute path of a directory')
    .option('--branch <branch>', 'its id or name (default: the default branch)')
    .option(
      '--server-name <name>',
      'what it is called there (default: the id of the project, or of the branch)',
      readName,
    )
    .action(async (project: string, place: string, options: { branch?: string; serverName?: string }) => {
      const request = { project, place, branch: options.branch, server_name: options.serverName };
      const terminal = process.stderr.isTTY;
      const tell = (text: string) => terminal && process.stderr.write(`\r\u001b[K${text}`);
      const report = await exportBranch(settings(), request, tell).finally(() => tell(''));
      print(formatReport(report));
    });
}

function readName(text: string): string {
  if (!/^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}$/.test(text)) {
    throw new InvalidArgumentError('A name is made of letters, digits, points, underscores and hyphens.');
  }
  return text;
}

function formatReport(report: ExportReport): string {
  const { branch_name, place, server_name, backup_id, bytes, server_version, last_segment, lacks_superuser } = report;
  const rows: [string, string][] = [
    ['branch', branch_name],
    ['place', place],
    ['server', server_name],
    ['backup', `${backup_id} (${(bytes / 1024 ** 2).toFixed(1)} MiB, Postgres ${formatVersion(server_version)})`],
    ['log', `to segment ${last_segment}`],
  ];
  if (lacks_superuser) {
    rows.push([
      'note',
      'its role postgres is no superuser; CloudNativePG needs one of that name, and will not start it',
    ]);
  }
  return rows.map(([name, value]) => `${name.padEnd(7)} ${value}\n`).join('');
}

const formatVersion = (version: number): string => `${Math.floor(version / 10_000)}.${version % 10_000}`;
