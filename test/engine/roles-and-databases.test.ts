import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { connect, query, refusal } from '../support/customer.ts';
import { createLiveProject, type LiveProject } from '../support/live-project.ts';
import { until } from '../support/until.ts';

const RESETS = 8;

describe('roles and databases of a running server', { timeout: 240_000 }, () => {
  let coppice: TestCoppice;
  let project: LiveProject;

  before(async () => {
    coppice = await startCoppice();
    project = await createLiveProject(coppice, { default_endpoint_settings: { suspend_timeout_seconds: 20 } });
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
  });

  const as = (role: string, password: string, database = project.database) => {
    const uri = new URL(project.uri);
    uri.username = encodeURIComponent(role);
    uri.password = encodeURIComponent(password);
    uri.pathname = `/${encodeURIComponent(database)}`;
    return uri.href;
  };
  const listed = async (what: 'roles' | 'databases') =>
    (await coppice.must('GET', `${project.branch_path}/${what}`))[what].map(({ name }: { name: string }) => name);
  const createRole = async (name: string): Promise<string> => {
    const { role } = await coppice.must('POST', `${project.branch_path}/roles`, { role: { name } });
    await coppice.settled(project.id);
    return role.password;
  };
  const createDatabase = async (name: string, owner_name = project.role) => {
    await coppice.must('POST', `${project.branch_path}/databases`, { database: { name, owner_name } });
    await coppice.settled(project.id);
  };
  const owner = () => project.uri;

  it('made through the API work as soon as their operations have ended', async () => {
    for (const name of ['anna', 'Weiß Söhne', 'select']) {
      const password = await createRole(name);
      await createDatabase(`db of ${name}`, name);
      assert.deepEqual(await query(as(name, password, `db of ${name}`), 'select current_user::text as name'), [
        { name },
      ]);
    }
  });

  it('change their passwords: the old one opens until then, the new one from then on', async () => {
    let password = await createRole('berta');
    for (let round = 0; round < RESETS; round++) {
      const reset = await coppice.must('POST', `${project.branch_path}/roles/berta/reset_password`);
      // Somebody hammers at the door meanwhile, with what was and what will be.
      const attempts = Promise.all([refusal(as('berta', password)), refusal(as('berta', reset.role.password))]);
      await until(async () => (await project.operation(reset.operations[0].id)).status === 'finished', {
        what: 'the reset',
        interval_ms: 1,
      });
      assert.equal(await refusal(as('berta', reset.role.password)), undefined, `reset ${round}`);
      assert.equal(await refusal(as('berta', password)), '28P01');
      await attempts;
      password = reset.role.password;
    }
  });

  it('made in SQL may enter, with the password that they have now', async () => {
    await query(owner(), "create role carl login password 'first'");
    await until(async () => (await refusal(as('carl', 'first'))) === undefined, { what: 'the role to be known' });
    assert.ok((await listed('roles')).includes('carl'));

    await query(owner(), "alter role carl password 'second'");
    // A failed login makes the gateway ask the server.
    await refusal(as('carl', 'second'));
    assert.equal(await refusal(as('carl', 'second')), undefined);
    assert.equal(await refusal(as('carl', 'first')), '28P01');

    await query(owner(), "alter role carl password 'third'");
    await project.suspend();
    assert.equal(await refusal(as('carl', 'second')), '28P01', 'what was changed before the suspend is known');
    assert.equal(await project.state(), 'idle');
    assert.equal(await refusal(as('carl', 'third')), undefined);
  });

  it('are refused when SQL says that they may not log in, or not any more', async () => {
    const shut = async (change: string) => {
      await query(owner(), `alter role dora ${change}`);
      await until(async () => (await refusal(as('dora', 'secret'))) !== undefined, { what: `${change} to be known` });
      await project.suspend();
      assert.equal(await refusal(as('dora', 'secret')), '28P01');
      assert.equal(await project.state(), 'idle', 'nothing was woken for it');
    };
    const open = async (change: string) => {
      await query(owner(), `alter role dora ${change}`);
      await until(async () => (await refusal(as('dora', 'secret'))) === undefined, { what: `${change} to be known` });
    };
    await query(owner(), "create role dora login password 'secret'");
    await open('login');
    await shut("valid until '2001-01-01'");
    await open("valid until 'infinity'");
    await shut('nologin');
    await open('login');
  });

  it('dropped or renamed in SQL are so in the lists, and stay so', async () => {
    await query(owner(), 'create role emil');
    await until(async () => (await listed('roles')).includes('emil'), { what: 'the role to be known' });
    await createDatabase('emils');
    await query(owner(), 'create database made_in_sql');
    await query(owner(), 'alter role emil rename to emilia');
    await query(owner(), 'drop database emils');
    // A change through the API comes before anybody has looked.
    await createRole('felix');
    await query(owner(), 'select 1');
    await until(async () => !(await listed('databases')).includes('emils'), { what: 'the database to leave the list' });
    await until(async () => (await listed('roles')).includes('emilia'), { what: 'the new name' });
    assert.ok(!(await listed('roles')).includes('emil'));
    assert.deepEqual(await query(owner(), "select rolname::text from pg_roles where rolname like 'emil%'"), [
      { rolname: 'emilia' },
    ]);
    assert.deepEqual(await query(owner(), "select from pg_database where datname = 'emils'"), []);
    assert.ok((await listed('databases')).includes('made_in_sql'));
  });

  it('given to others in SQL stay theirs when something else is changed through the API', async () => {
    await createDatabase('shop');
    await query(owner(), 'create role heidi');
    await query(owner(), 'grant heidi to current_user');
    await query(owner(), 'alter database shop owner to heidi');
    await createRole('ida');
    const theOwner = () =>
      query(owner(), "select pg_get_userbyid(datdba)::text as name from pg_database where datname = 'shop'");
    assert.deepEqual(await theOwner(), [{ name: 'heidi' }]);
    await until(
      async () => {
        const { databases } = await coppice.must('GET', `${project.branch_path}/databases`);
        return databases.find(({ name }: { name: string }) => name === 'shop').owner_name === 'heidi';
      },
      { what: 'the new owner to be known' },
    );
    await query(owner(), 'alter database shop owner to current_user');
    await query(owner(), 'drop role heidi');
    await createRole('jens');
    assert.deepEqual(await theOwner(), [{ name: project.role }]);
  });

  it('are renamed, given away and deleted under connected clients', async () => {
    await createDatabase('moving');
    await createRole('karl');
    const inMoving = (name: string) => as(project.role, new URL(project.uri).password, name);
    await using client = await connect(inMoving('moving'));
    await client.query('create table there as select 1 as one');
    await coppice.must('PATCH', `${project.branch_path}/databases/moving`, {
      database: { name: 'moved', owner_name: 'karl' },
    });
    await coppice.settled(project.id);
    assert.equal(await client.broken, '57P01');
    assert.deepEqual(await query(inMoving('moved'), 'select one from there'), [{ one: 1 }]);
    assert.equal(await refusal(inMoving('moving')), '3D000');

    await using last = await connect(inMoving('moved'));
    await coppice.must('DELETE', `${project.branch_path}/databases/moved`);
    await coppice.settled(project.id);
    assert.equal(await last.broken, '57P01');
    assert.equal(await refusal(inMoving('moved')), '3D000');
    await coppice.must('DELETE', `${project.branch_path}/roles/karl`);
    await coppice.settled(project.id);
    assert.deepEqual(await query(owner(), "select from pg_roles where rolname = 'karl'"), []);
  });

  it('of a new project are called what was asked for, and there are no others', async () => {
    const named = await createLiveProject(coppice, {
      branch: { name: 'trunk', role_name: 'app', database_name: 'store' },
    });
    assert.deepEqual([named.role, named.database], ['app', 'store']);
    const [{ roles: found, databases, me }] = await query(
      named.uri,
      `select current_user::text as me,
         (select array_agg(rolname::text) from pg_roles where rolname !~ '^pg_') as roles,
         (select array_agg(datname::text order by datname) from pg_database) as databases`,
    );
    assert.equal(me, 'app');
    assert.deepEqual(new Set(found), new Set(['app', 'cloud_admin', 'neon_superuser']));
    assert.deepEqual(databases, ['postgres', 'store', 'template0', 'template1']);
    const { branches } = await coppice.must('GET', `${named.path}/branches`);
    assert.deepEqual(
      branches.map(({ name }: { name: string }) => name),
      ['trunk'],
    );
  });

  it('that cannot be changed as asked never keep the compute from starting', async () => {
    // In SQL, and unknown to the API as yet: the name that a database is to get through the API.
    await createDatabase('wanted');
    const rename = async (attempt: number): Promise<{ taken: string; operations: { id: string }[] }> => {
      const taken = `taken_${attempt}`;
      await query(owner(), `create database ${taken}`);
      const path = `${project.branch_path}/databases/wanted`;
      const { status, body } = await coppice.call('PATCH', path, { database: { name: taken } });
      // Somebody looked into the server in between.
      if (status === 409) return rename(attempt + 1);
      assert.equal(status, 200);
      return { taken, operations: body.operations };
    };
    const { taken, operations } = await rename(1);
    await until(async () => (await project.operation(operations[0]!.id)).status !== 'running', {
      what: 'the rename to end',
      timeout_ms: 60_000,
    });
    const { status, error } = await project.operation(operations[0]!.id);
    assert.equal(status, 'failed');
    assert.ok(error!.includes(taken), error);
    await coppice.must('POST', `${project.endpoint_path}/restart`);
    await until(async () => (await refusal(owner())) === undefined, { what: 'the compute to serve' });

    // Nor do they keep a password from being set.
    const { role } = await coppice.must('POST', `${project.branch_path}/roles/${project.role}/reset_password`);
    await until(async () => (await refusal(as(project.role, role.password))) === undefined, {
      what: 'the new password',
    });
    const again = as(project.role, role.password);

    await query(again, `drop database ${taken}`);
    await coppice.must('POST', `${project.branch_path}/roles`, { role: { name: 'ludwig' } });
    const later = async () => (await query(again, 'select from pg_database where datname = $1', [taken])).length === 1;
    await until(later, { what: 'the rename to be done after all' });
  });
});
