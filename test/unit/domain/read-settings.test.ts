import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type GivenFlags, readSettings } from '../../../src/domain/read-settings.ts';
import type { Settings, SettingsMachine } from '../../../src/domain/settings.ts';

const PERSON: SettingsMachine = { env: { HOME: '/home/ada' }, uid: 1000, cwd: '/home/ada/shop' };

function settingsOf(flags: GivenFlags, machine: SettingsMachine = PERSON): Settings {
  const result = readSettings(flags, machine);
  if ('problems' in result) throw new Error(result.problems.join('\n'));
  return result.settings;
}

function problemsOf(flags: GivenFlags, machine: SettingsMachine = PERSON): readonly string[] {
  const result = readSettings(flags, machine);
  return 'problems' in result ? result.problems : [];
}

const withEnv = (env: Record<string, string>): SettingsMachine => ({ ...PERSON, env: { ...PERSON.env, ...env } });

describe('settings', () => {
  test('all have a value or may be left out when nothing is given', () => {
    assert.deepEqual(settingsOf({}), {
      data_dir: '/home/ada/.local/share/coppice',
      api_port: 7432,
      pg_port: 5432,
      listen: ['127.0.0.1', '::1'],
      domain: 'localhost',
      gateway_workers: 1,
      proxy_protocol: 'off',
      api_proxy_protocol: 'off',
      proxy_protocol_from: ['127.0.0.0/8', '::1'],
      region_id: 'local',
      bootstrap_email: 'admin@coppice.localhost',
      master_key_file: '/home/ada/.local/share/coppice/master.key',
      require_tls: false,
      roles: ['api', 'engine', 'gateway'],
      storage: 'auto',
      min_suspend_timeout_seconds: 60,
      snapshot_wal_bytes: 256 * 1024 ** 2,
      snapshot_interval_seconds: 300,
      serve_replay_bytes: 32 * 1024 ** 2,
      branch_without_checkpoint: false,
      time_travel_timeout_seconds: 30,
      archive_check_interval_seconds: 86_400,
      s3_region: 'us-east-1',
      archive_ship_seconds: 60,
      detach_projects_after_seconds: 0,
      rate_limit_per_minute: 0,
      rate_limit_group_per_second: 0,
      audit_log_retention_seconds: 31_536_000,
      operations_retention_seconds: 15_552_000,
      keep_deleted_projects_seconds: 0,
      keep_deleted_branches_seconds: 0,
      keep_computes: false,
      log_level: 'info',
    });
  });

  test('a flag wins over its environment variable, and the variable over the default', () => {
    const machine = withEnv({ COPPICE_API_PORT: '9000', COPPICE_PG_PORT: '9001' });
    const settings = settingsOf({ apiPort: '8000' }, machine);
    assert.equal(settings.api_port, 8000);
    assert.equal(settings.pg_port, 9001);
  });

  test('branches are archived only where it is said to where', () => {
    const [problem, ...others] = problemsOf({ archiveBranchesAfterSeconds: '86400' });
    assert.match(problem!, /--archive-branches-after-seconds .*--objects/);
    assert.deepEqual(others, []);
    const fortnight = { archiveBranchesAfterSeconds: '86400', archiveBranchesMinAgeSeconds: '1209600' };
    assert.deepEqual(problemsOf({ ...fortnight, objects: '/mnt/objects' }), []);
  });

  test('projects are detached only where it is said to where, and never after no time', () => {
    const [problem, ...others] = problemsOf({ detachProjectsAfterSeconds: '86400' });
    assert.match(problem!, /--detach-projects-after-seconds .*--objects/);
    assert.deepEqual(others, []);
    assert.deepEqual(problemsOf({ detachProjectsAfterSeconds: '86400', objects: '/mnt/objects' }), []);
    assert.deepEqual(problemsOf({ detachProjectsAfterSeconds: '0' }), []);
    assert.match(problemsOf({ archiveShipSeconds: '0' })[0]!, /--archive-ship-seconds/);
  });

  test('an empty variable counts as not set', () => {
    assert.equal(settingsOf({}, withEnv({ COPPICE_DOMAIN: '' })).domain, 'localhost');
  });

  test('the data directory depends on who starts', () => {
    assert.equal(settingsOf({}, { env: {}, uid: 0, cwd: '/' }).data_dir, '/var/lib/coppice');
    assert.equal(settingsOf({}, withEnv({ XDG_DATA_HOME: '/data' })).data_dir, '/data/coppice');
    assert.equal(settingsOf({}, withEnv({ XDG_DATA_HOME: 'data' })).data_dir, '/home/ada/.local/share/coppice');
    assert.match(problemsOf({}, { env: {}, uid: 1000, cwd: '/' })[0]!, /--data-dir has no default here.*HOME/);
  });

  test('relative paths are taken from the working directory', () => {
    const settings = settingsOf({ dataDir: 'state', tlsCert: '../cert.pem, b.pem', tlsKey: '/etc/key.pem,/b' });
    assert.equal(settings.data_dir, '/home/ada/shop/state');
    assert.equal(settings.master_key_file, '/home/ada/shop/state/master.key');
    assert.deepEqual(settings.tls_cert, ['/home/ada/cert.pem', '/home/ada/shop/b.pem']);
    assert.deepEqual(settings.tls_key, ['/etc/key.pem', '/b']);
  });

  test('a flag without a value is true, and booleans read the usual words', () => {
    assert.equal(settingsOf({ keepComputes: true }).keep_computes, true);
    assert.equal(settingsOf({}, withEnv({ COPPICE_REQUIRE_TLS: 'Yes' })).require_tls, true);
    assert.equal(settingsOf({ requireTls: 'off' }, withEnv({ COPPICE_REQUIRE_TLS: '1' })).require_tls, false);
  });

  test('sizes have a unit, of powers of 1024', () => {
    assert.equal(settingsOf({ snapshotWalBytes: '64MB' }).snapshot_wal_bytes, 64 * 1024 ** 2);
    for (const size of ['64', '64mb', '0MB', '-1GB', '1.5GB', '1000000MB']) {
      assert.match(problemsOf({ snapshotWalBytes: size })[0]!, /is not a size; give one such as 64MB or 1GB$/, size);
    }
  });

  test('numbers of processes have bounds', () => {
    assert.equal(settingsOf({ gatewayWorkers: '16' }).gateway_workers, 16);
    for (const count of ['0', '17', '2.5', 'many']) {
      assert.match(
        problemsOf({ gatewayWorkers: count })[0]!,
        /is not a number; give a whole number from 1 to 16$/,
        count,
      );
    }
  });

  test('object storage is a bucket or an absolute directory', () => {
    for (const place of ['s3://backups', 's3://backups/', 's3://my.bucket/a/b-1', '/mnt/objects']) {
      assert.equal(settingsOf({ objects: place }).objects, place);
    }
    for (const place of [
      'objects',
      's3://',
      's3:///a',
      's3://Bucket',
      's3://backups/../a',
      's3://backups//a',
      'gs://a',
    ]) {
      assert.match(problemsOf({ objects: place })[0]!, /give s3:\/\/bucket\/prefix or an absolute path/, place);
    }
    assert.equal(settingsOf({ s3Endpoint: 'http://127.0.0.1:7070' }).s3_endpoint, 'http://127.0.0.1:7070');
    for (const address of ['s3.example.com', 'ftp://a', 'https://key:secret@s3.example.com']) {
      assert.match(problemsOf({ s3Endpoint: address })[0]!, /is not an address; give one such as/, address);
    }
  });

  test('lists drop repeated items and refuse unknown ones', () => {
    assert.deepEqual(settingsOf({ roles: 'gateway, api,gateway' }).roles, ['gateway', 'api']);
    assert.match(problemsOf({ roles: 'api,console' })[0]!, /--roles: "api,console" .*one of api, engine, gateway/);
    assert.match(problemsOf({ proxyProtocolFrom: '10.0.0.0/8,balancer' })[0]!, /"balancer"; give addresses, ranges/);
    assert.match(problemsOf({ listen: '127.0.0.1,' })[0]!, /empty item/);
    assert.match(problemsOf({ listen: 'localhost' })[0]!, /"localhost", which is not an IP address/);
  });

  test('every problem is told at once, with the value and what to give', () => {
    const problems = problemsOf({ apiPort: '70000', storage: 'zfs' }, withEnv({ COPPICE_DOMAIN: 'No Name' }));
    assert.equal(problems.length, 3);
    assert.match(problems[0]!, /^--api-port: "70000" is not a port; give a whole number from 0 to 65535$/);
    assert.match(problems[1]!, /^COPPICE_DOMAIN: "No Name" is not a domain name/);
    assert.match(problems[2]!, /^--storage: "zfs" .*one of auto, btrfs, reflink, copy$/);
  });

  test('origins of pages are whole and nothing but origins', () => {
    const given = 'https://console.example.com,http://localhost:3000';
    assert.deepEqual(settingsOf({ allowedOrigins: given }).allowed_origins, given.split(','));
    for (const wrong of [
      '*',
      'console.example.com',
      'https://example.com/',
      'https://example.com/a',
      'ftp://example.com',
    ]) {
      assert.match(problemsOf({ allowedOrigins: wrong })[0]!, /give origins such as https:/, wrong);
    }
  });

  test('a secret never appears in a problem', () => {
    const problems = problemsOf({ databaseUrl: 'mysql://root:hunter2@db/x', bootstrapApiKey: 'hunter2' });
    assert.equal(problems.length, 2);
    assert.ok(!problems.join('\n').includes('hunter2'), problems.join('\n'));
  });

  test('settings that only make sense together are checked together', () => {
    assert.match(problemsOf({ tlsCert: '/c,/d', tlsKey: '/k' })[0]!, /2 items and --tls-key 1; give a key for each/);
    assert.match(problemsOf({ tlsCert: '/c.pem' })[0]!, /--tls-cert is given without --tls-key/);
    assert.match(problemsOf({ tlsKey: '/k.pem' })[0]!, /--tls-key is given without --tls-cert/);
    assert.match(problemsOf({ apiPort: '5432' })[0]!, /both 5432/);
    assert.deepEqual(problemsOf({ apiPort: '0', pgPort: '0' }), []);
    assert.match(
      problemsOf({}, withEnv({ COPPICE_SMTP_URL: 'smtp://mail' }))[0]!,
      /--smtp-url is given without --mail-from/,
    );
    assert.match(problemsOf({ mailFrom: 'a@b.test' })[0]!, /--mail-from is given without --smtp-url/);
    const sso = { oidcIssuer: 'https://login.example.com', oidcClientId: 'coppice' };
    const secret = { COPPICE_OIDC_CLIENT_SECRET: 'hunter2' };
    assert.deepEqual(problemsOf(sso, withEnv(secret)), []);
    assert.deepEqual(problemsOf({ ...sso, oidcClientSecretFile: '/s' }), []);
    for (const flags of [
      sso,
      { oidcIssuer: sso.oidcIssuer },
      { oidcClientId: 'coppice', oidcClientSecretFile: '/s' },
    ]) {
      assert.match(problemsOf(flags)[0]!, /--oidc-issuer needs --oidc-client-id/);
    }
    assert.match(problemsOf({ ...sso, oidcClientSecretFile: '/s' }, withEnv(secret))[0]!, /one of/);
  });

  test('a variable that is no setting is pointed out, unless a container platform set it', () => {
    const machine = withEnv({
      COPPICE_API_PROT: '1',
      COPPICE_SERVICE_HOST: '10.0.0.1',
      COPPICE_PORT_5432_TCP: 'tcp://',
    });
    const result = readSettings({}, machine);
    assert.ok('warnings' in result);
    assert.deepEqual(result.warnings, [
      'COPPICE_API_PROT is set but is not a setting; docs/settings.md names them all',
    ]);
  });
});
