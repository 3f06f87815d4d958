import { existsSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import type { ActionContext } from '../actions/context.ts';
import { isLocalDomain } from '../domain/outbound-url.ts';
import { publicUrl } from '../domain/public-url.ts';
import type { Settings } from '../domain/settings.ts';
import { WEBHOOK_KEY_PURPOSE } from '../domain/webhook-secret.ts';
import { openSmtp } from '../drivers/mail/smtp.ts';
import type { ObjectStore } from '../drivers/objects/contract.ts';
import type { EngineContext } from '../engine/context.ts';
import { type Engine, startEngine } from '../engine/engine.ts';
import { historyReader } from '../engine/history/reader.ts';
import { DEFAULT_MAJOR, newestDistribution } from '../postgres/distributions.ts';
import { type ChangeListener, listenForChanges } from '../store/changes.ts';
import type { Store } from '../store/connection.ts';
import { anybodyHasPassword } from '../store/logins.ts';
import { findFirstUser } from '../store/users.ts';
import { EndedOperations } from '../watch/ended-operations.ts';
import type { Log } from '../watch/log-fields.ts';
import type { ChosenStorage } from './choose-storage.ts';
import type { CrewAnswers } from './crew-channel.ts';
import { joinDataDirectory, openDataDirectory, refuseUsedDirectory } from './data-directory.ts';
import { domainResolves } from './domain-names.ts';
import { type Foundation, layFoundation } from './lay-foundation.ts';
import { openVault } from './master-key.ts';
import type { CrewMate } from './open-gate.ts';
import { objectsOf } from './open-objects.ts';
import { STORE_COMPUTE_ID } from './own-store.ts';
import { archiveOf, shippedArchiveOf, storageOf } from './parts.ts';
import { choosePort } from './ports.ts';
import { StartError } from './start-error.ts';
import { type Front, startFront } from './start-front.ts';
import { stopComputes } from './stop-computes.ts';
import { createTemplates } from './templates.ts';
import { refuseUnfinishedRestore } from './unfinished-restore.ts';
import { projectUidBase } from './users.ts';

/** A running Coppice, as the person who started it is told. */
export interface Coppice {
  readonly data_directory: string;
  /** `http://localhost:7432` */
  readonly api_url: string | undefined;
  /** `localhost:5432` */
  readonly gateway_address: string | undefined;
  readonly storage: ChosenStorage;
  readonly isolated_users: boolean;
  readonly limits_enforced: boolean;
  readonly domain_resolves: boolean;
  /** Address of the first user, while nobody could log in by password. */
  readonly first_login: string | undefined;
  /** What other processes of the gateway may ask this one. */
  readonly answers: CrewAnswers;
  /** Stops in reverse order. Computes stay only where the settings say so. */
  stop(): Promise<void>;
}

export interface StartOptions {
  readonly logger: Log;
  /** Told what is being done, since the first start takes a while. */
  readonly progress: (text: string) => void;
  /** Where this process is one of several that serve the Postgres port: the others. */
  readonly crew?: CrewMate;
}

/**
 * Starts everything that the settings ask for. What was begun is undone when a later step fails. Throws StartError
 * with a sentence for the person at the terminal.
 */
export async function startCoppice(given: Settings, { logger, progress, crew }: StartOptions): Promise<Coppice> {
  await using undo = new AsyncDisposableStack();
  const roles = new Set(given.roles);
  // Before the ports, which whoever else runs on the directory has taken, too; made only after them.
  if (roles.has('engine')) await refuseUsedDirectory(given.data_dir);
  const settings = crew ? given : await withPorts(given);
  const directory = await (roles.has('engine') ? openDataDirectory : joinDataDirectory)(given.data_dir);
  undo.defer(() => directory.release());
  await refuseUnfinishedRestore(directory.path);
  const foundation = await layFoundation(settings, { directory, logger, progress }, undo);
  const { driver: storage, ...chosen } = await storageOf(foundation.directory.path, settings);
  const objects = await objectsOf(settings);
  const log = await logOf(foundation, objects);
  let listener: ChangeListener | undefined;
  const installed = await installationContext(foundation);
  const keys = {
    replication_key: installed.vault.derive('passwords of read replicas'),
    masking_key: installed.vault.derive('pseudonyms of masked branches'),
    webhooks: { key: installed.vault.derive(WEBHOOK_KEY_PURPOSE), loopback: isLocalDomain(settings.domain) },
  };
  const engineContext = engineContextOf(foundation, { storage, ...log, objects, ...keys }, async () =>
    listener?.caughtUp(),
  );
  const context = { ...installed, history: historyReader(engineContext) };

  let engine: Engine | undefined;
  if (roles.has('engine')) {
    undo.defer(() => (settings.keep_computes ? Promise.resolve() : stopComputes(engineContext)));
    progress('taking over what runs');
    const { pool } = foundation.observed;
    engine = await startEngine(engineContext, { pool, data_directory_id: foundation.directory.id });
    undo.defer(() => engine!.stop());
  }
  let ready = false;
  const store_pools = { intent: foundation.intent.pool, observed: foundation.observed.pool };
  const frontOptions = { settings, logger, directory: directory.path, store_pools, ready: () => ready, crew };
  const front = await startFront(context, engineContext, frontOptions);
  undo.defer(() => front.stop());
  const listening = await listen(foundation, front, engine);
  undo.defer(() => listening.close());
  listener = listening;
  front.useListener(listening);
  if (roles.has('engine')) {
    const { default_pg_version, distributions } = context.installation;
    progress(`preparing Postgres ${default_pg_version} for new projects`);
    await engineContext.template(distributions.get(default_pg_version)!);
  }
  ready = true;

  const stopping = undo.move();
  return {
    data_directory: foundation.directory.path,
    api_url: front.api_url,
    gateway_address: front.gateway_address,
    storage: { driver: storage, ...chosen },
    isolated_users: foundation.driver.capabilities.isolated_users,
    limits_enforced: foundation.driver.capabilities.limits_enforced,
    domain_resolves: context.installation.domain_resolves,
    first_login: await firstLogin(context.store),
    answers: front.answers,
    stop: () => stopping.disposeAsync(),
  };
}

async function firstLogin(store: Store): Promise<string | undefined> {
  return (await anybodyHasPassword(store)) ? undefined : (await findFirstUser(store))?.email;
}

/** A port that another process serves stands in connection strings all the same. */
async function withPorts(given: Settings): Promise<Settings> {
  const { listen, roles } = given;
  const [serves_http, serves_postgres] = [roles.some((role) => role !== 'engine'), roles.includes('gateway')];
  return {
    ...given,
    api_port: await choosePort(serves_http ? listen : [], given.api_port, '--api-port'),
    pg_port: await choosePort(serves_postgres ? listen : [], given.pg_port, '--pg-port'),
  };
}

async function installationContext({
  settings,
  distributions,
  intent,
}: Foundation): Promise<Omit<ActionContext, 'history'>> {
  const newest = new Map<number, string>();
  for (const { major } of distributions) newest.set(major, newestDistribution(distributions, major)!.id);
  const default_pg_version = newest.has(DEFAULT_MAJOR) ? DEFAULT_MAJOR : Math.max(...newest.keys());
  if (newest.size === 0) throw new StartError('no Postgres is here to run: run npm ci, or install one (postgresql-17)');
  return {
    store: intent.store,
    vault: await openVault(settings.master_key_file),
    mail:
      settings.smtp_url && settings.mail_from
        ? openSmtp({ url: settings.smtp_url, from: settings.mail_from })
        : undefined,
    installation: {
      region_id: settings.region_id,
      public_url: publicUrl(settings),
      domain: settings.domain,
      pg_port: settings.pg_port,
      domain_resolves: await domainResolves(settings.domain),
      min_suspend_timeout_seconds: settings.min_suspend_timeout_seconds,
      time_travel_timeout_seconds: settings.time_travel_timeout_seconds,
      object_storage: settings.objects !== undefined,
      keep_deleted_projects_seconds: settings.keep_deleted_projects_seconds,
      keep_deleted_branches_seconds: settings.keep_deleted_branches_seconds,
      default_pg_version,
      distributions: newest,
      uid_base: projectUidBase,
    },
  };
}

function engineContextOf(
  foundation: Foundation,
  given: Pick<
    EngineContext,
    'storage' | 'archive' | 'shipping' | 'objects' | 'replication_key' | 'masking_key' | 'webhooks'
  >,
  caughtUp: () => Promise<void>,
): EngineContext {
  const { settings, driver, distributions, intent, observed, logger } = foundation;
  const byId = new Map(distributions.map((distribution) => [distribution.id, distribution]));
  return {
    intent: intent.store,
    store: observed.store,
    compute: driver,
    ...given,
    archive_branches: {
      after_ms: milliseconds(settings.archive_branches_after_seconds),
      min_age_ms: milliseconds(settings.archive_branches_min_age_seconds) ?? 0,
    },
    detach_projects_after_ms: milliseconds(settings.detach_projects_after_seconds || undefined),
    audit_log_retention_ms: milliseconds(settings.audit_log_retention_seconds || undefined),
    operations_retention_ms: milliseconds(settings.operations_retention_seconds || undefined),
    keep_deleted_projects_ms: settings.keep_deleted_projects_seconds * 1000,
    keep_deleted_branches_ms: settings.keep_deleted_branches_seconds * 1000,
    archive_check_interval_ms: settings.archive_check_interval_seconds * 1000,
    snapshots: {
      wal_bytes: settings.snapshot_wal_bytes,
      interval_ms: settings.snapshot_interval_seconds * 1000,
    },
    branch_without_checkpoint: settings.branch_without_checkpoint,
    serve_replay_bytes: settings.serve_replay_bytes,
    distributions: new Map(
      distributions.map(({ id, root, major, share }) => {
        const has_scheduler = existsSync(join(share, 'extension', 'pg_cron.control'));
        return [id, { id, root, major, has_scheduler }];
      }),
    ),
    template: createTemplates(given.storage, byId),
    os_user: userInfo().username,
    own_computes: new Set([STORE_COMPUTE_ID]),
    caughtUp,
    ended_operations: new EndedOperations(),
    logger: logger.child({ room: 'engine' }),
  };
}

/** Where the log of the branches goes. */
async function logOf(
  { directory, settings }: Foundation,
  objects: ObjectStore | undefined,
): Promise<Pick<EngineContext, 'archive' | 'shipping'>> {
  if (!objects) return { archive: await archiveOf(directory.path), shipping: undefined };
  const archive = await shippedArchiveOf(directory.path, objects);
  const after_ms = settings.archive_ship_seconds * 1000;
  return { archive, shipping: { archive, after_ms, local_ms: milliseconds(settings.archive_local_seconds) } };
}

const milliseconds = (seconds: number | undefined): number | undefined => seconds && seconds * 1000;

function listen({ connection }: Foundation, front: Front, engine: Engine | undefined): Promise<ChangeListener> {
  return listenForChanges(connection, {
    onChange: (change) => {
      front.hear(change);
      engine?.hear(change);
    },
    onGap: () => front.forget(),
    onAgain: () => front.lookAgain(),
  });
}
