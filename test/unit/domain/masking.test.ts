import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readCopyRow, writeCopyRow } from '../../../src/domain/masking/copy-text.ts';
import { parseMaskingCall } from '../../../src/domain/masking/masking-call.ts';
import { MASKING_FUNCTIONS } from '../../../src/domain/masking/masking-functions.ts';
import { findRefusedRule } from '../../../src/domain/masking/masking-rule.ts';
import { tableMask } from '../../../src/domain/masking/table-mask.ts';

const KEY = Buffer.from('a secret of the branch');
const place = { database_name: 'shop', schema_name: 'public', table_name: 'people' };
const COLUMNS = [
  { name: 'id', type: 'int4', labels: [] },
  { name: 'email', type: 'text', labels: [] },
  { name: 'Odd "name"', type: 'varchar', labels: [] },
  { name: 'age', type: 'int4', labels: [] },
  { name: 'salary', type: 'numeric', labels: [] },
  { name: 'born', type: 'date', labels: [] },
  { name: 'mood', type: 'mood', labels: ['sad', 'fine'] },
  { name: 'spent', type: 'int4range', labels: [] },
  { name: 'token', type: 'uuid', labels: [] },
];
const ROW = ['7', 'ada.lovelace@example.org', 'Ada', '36', '1200.50', '1815-12-10', 'fine', '[1,5)', 'f0'];

/** What a function makes of one column of the row. */
function masked(column: string, masking_function: string, { key = KEY, row = ROW as (string | null)[] } = {}) {
  const { mask } = tableMask(COLUMNS, [{ ...place, column_name: column, masking_function }], key);
  const at = COLUMNS.findIndex(({ name }) => name === column);
  const after = mask(row);
  assert.deepEqual(after.toSpliced(at, 1), row.toSpliced(at, 1), 'another column has changed');
  return after[at];
}
const text = (masking_function: string, options?: Parameters<typeof masked>[2]) =>
  masked('email', masking_function, options)!;

describe('a masking function', () => {
  it('is read from a call with columns, strings, numbers, lists, NULL and casts', () => {
    const call = parseMaskingCall(
      ` Anon.Some_Function ( email, "Odd ""name""", 'it''s', $$a 'b'$$::text, -2.5, ARRAY['a', 3]::varchar(10), NULL ) ;`,
    );
    assert.deepEqual(call, {
      name: 'some_function',
      arguments: [
        { kind: 'column', name: 'email' },
        { kind: 'column', name: 'Odd "name"' },
        { kind: 'literal', value: "it's" },
        { kind: 'literal', value: "a 'b'" },
        { kind: 'literal', value: '-2.5' },
        { kind: 'list', values: ['a', '3'] },
        { kind: 'null' },
      ],
    });
  });

  it('is nothing else than such a call', () => {
    const wrong = ['', 'fake_email()', 'anon.fake_email', 'anon.fake_email(', 'anon.fake_email())', 'pg_catalog.now()'];
    wrong.push('anon.fake_email(); DROP TABLE users', 'anon.hash(anon.hash(email))', 'anon.hash(email || id)');
    wrong.push("anon.hash('open)", 'anon.hash((SELECT 1))', 'anon.hash(email --)', 'anon.hash(public.users.email)');
    wrong.push(
      'anon.random_in(ARRAY[email])',
      'anon.hash(email::)',
      'anon.hash(,)',
      'anon."fake_email"()',
      "anon.x(E'\\')",
    );
    for (const masking_function of wrong) {
      const rule = { ...place, column_name: 'email', masking_function };
      assert.ok(findRefusedRule([rule])?.problem, masking_function);
    }
  });

  for (const [name, { takes, gives }] of MASKING_FUNCTIONS) {
    if (takes[0] > 0 || gives === 'any') continue;
    it(`anon.${name}() says nothing of what was there, not even that nothing was`, () => {
      const call = `anon.${name}()`;
      assert.equal(findRefusedRule([{ ...place, column_name: 'email', masking_function: call }]), undefined);
      const { unread } = tableMask(COLUMNS, [{ ...place, column_name: 'email', masking_function: call }], KEY);
      assert.deepEqual([...unread], ['email']);
      for (const email of [null, ROW[1]!]) {
        const made = text(call, { row: ROW.with(1, email as string) });
        assert.ok(made.length > 0 && !made.includes('lovelace'));
      }
    });
  }

  it('hides the middle of a value, and all of one that would be shown whole', () => {
    assert.equal(text("anon.partial(email, 3, '***', 4)"), 'ada***.org');
    assert.equal(text('anon.partial("Odd ""name""", 2, $$***$$, 1)'), '***');
    assert.equal(text("anon.partial(email, 0, 'x', 0)"), 'x');
    assert.equal(text('anon.partial_email(email)'), 'ad******@ex******.org');
    assert.equal(text('anon.partial_email(email)', { row: ROW.with(1, 'no address at all') }), 'no******@******');
    assert.equal(text('anon.partial_email(email)', { row: ROW.with(1, 'a@b.org') }), '******@******.org');
  });

  it('makes the same of the same value, differently in every branch', () => {
    const other = { key: Buffer.from('that of another branch') };
    for (const call of ['anon.hash(email)', 'anon.pseudo_email(email)', "anon.pseudo_iban(email, 'salt')"]) {
      assert.equal(text(call), text(call));
      assert.notEqual(text(call), text(call, other));
      assert.notEqual(text(call), text(call, { row: ROW.with(1, 'somebody else') }));
      assert.equal(masked('email', call, { row: [null, null, ...ROW.slice(2)] }), null);
    }
    assert.match(text('anon.hash(email)'), /^[0-9a-f]{64}$/);
    assert.notEqual(text("anon.pseudo_iban(email, 'salt')"), text("anon.pseudo_iban(email, 'pepper')"));
  });

  it('draws from what it is given', () => {
    for (let times = 0; times < 50; times++) {
      assert.ok(['5', '6', '7'].includes(masked('age', 'anon.random_int_between(5, 7)')!));
      assert.match(text('anon.random_string(12)'), /^[0-9A-Z]{12}$/);
      assert.match(masked('born', "anon.random_date_between('2020-01-01', '2020-01-31'::date)")!, /^2020-01-\d\d /);
      assert.ok(['a', 'b'].includes(text("anon.random_in(ARRAY['a', 'b'])")));
      assert.ok(['sad', 'fine'].includes(masked('mood', 'anon.random_in_enum(mood)')!));
      const age = Number(masked('age', 'anon.noise(age, 0.5)'));
      assert.ok(Number.isInteger(age) && age >= 18 && age <= 54, String(age));
      assert.match(masked('salary', 'anon.noise(salary, 0.1)')!, /^1[0-3]\d\d\.\d\d$/);
      assert.match(masked('born', "anon.dnoise(born, '2 days')")!, /^1815-12-(08|09|10|11|12) /);
    }
    const large = BigInt(text('anon.random_bigint_between(-9000000000000000000, 9000000000000000000)'));
    assert.ok(large >= -9000000000000000000n && large <= 9000000000000000000n);
  });

  it('tells only the range that a value is in', () => {
    assert.equal(masked('spent', 'anon.generalize_int4range(age, 10)'), '[30,40)');
    assert.equal(text("anon.generalize_daterange(born, 'decade')"), '["1810-01-01","1820-01-01")');
    assert.equal(text("anon.generalize_daterange(born, 'week')"), '["1815-12-04","1815-12-11")');
    assert.equal(
      text("anon.generalize_tsrange(born, 'month')"),
      '["1815-12-01 00:00:00.000+00","1816-01-01 00:00:00.000+00")',
    );
  });

  it('is refused for a column that cannot hold what it gives', () => {
    for (const [column, call] of [
      ['age', 'anon.fake_email()'],
      ['born', 'anon.random_string(3)'],
      ['token', 'anon.hash(email)'],
      ['spent', 'anon.generalize_numrange(age)'],
      ['mood', 'anon.fake_city()'],
    ] as const) {
      assert.throws(() => masked(column, call), /does not fit into a column of type/, call);
    }
    masked('token', 'anon.dummy_uuidv4()');
  });

  it('is refused with arguments that it does not take', () => {
    const calls = ["anon.partial(email, 'x', '*', 1)", 'anon.partial(email, -1, 2, 3)', 'anon.hash(nobody)'];
    calls.push(
      'anon.random_string(email)',
      'anon.random_string(10001)',
      'anon.hash(ARRAY[1])',
      'anon.random_in(email)',
    );
    calls.push("anon.random_date_between('yesterday', '2020-01-01')", 'anon.random_in(ARRAY[])', 'anon.lorem_ipsum(0)');
    calls.push('anon.random_in_enum(email)', "anon.dnoise(born, 'a while')", "anon.generalize_daterange(born, 'eon')");
    for (const call of calls) assert.throws(() => text(call), { name: 'MaskingProblem' }, call);
    assert.throws(() => masked('age', 'anon.random_int_between(7, 5)'), { name: 'MaskingProblem' });
  });

  it('stops where it meets a value that it cannot hide', () => {
    assert.throws(() => masked('salary', 'anon.noise(salary, 1)', { row: ROW.with(4, 'NaN') }), /no number/);
    assert.throws(() => masked('born', "anon.dnoise(born, '1 day')", { row: ROW.with(5, 'infinity') }), /no time/);
  });
});

describe('masking rules', () => {
  const refused = (...rules: object[]) =>
    findRefusedRule(rules.map((rule) => ({ ...place, column_name: 'email', ...rule })))?.problem;

  it('take a function, a value or NULL, one for each column', () => {
    assert.equal(refused({ masking_value: '' }, { column_name: 'b', masking_function: 'NULL' }), undefined);
    assert.match(refused({}) ?? '', /must be given/);
    assert.match(refused({ masking_value: 'x', masking_function: 'NULL' }) ?? '', /must be given/);
    assert.match(refused({ masking_value: 'x' }, { masking_value: 'y' }) ?? '', /has a rule already/);
    assert.match(refused({ masking_function: 'anon.image_blur(email)' }) ?? '', /no masking function anon\.image_blur/);
    assert.match(refused({ masking_function: 'anon.hash()' }) ?? '', /takes 1 arguments, not 0/);
    assert.match(refused({ masking_function: 'anon.random_date(1)' }) ?? '', /takes 0 arguments, not 1/);
  });

  it('put a value or nothing into every row, and read nothing for it', () => {
    const { unread, mask } = tableMask(
      COLUMNS,
      [
        { ...place, column_name: 'email', masking_value: 'a\tb' },
        { ...place, column_name: 'born', masking_function: ' null ' },
        { ...place, column_name: 'age', masking_function: 'anon.noise(salary, 0)' },
        { ...place, column_name: 'salary', masking_function: 'anon.noise(salary, 0)' },
      ],
      KEY,
    );
    assert.deepEqual([...unread], ['email', 'age', 'born']);
    assert.deepEqual(mask(ROW), ['7', 'a\tb', 'Ada', '1201', '1200.50', null, 'fine', '[1,5)', 'f0']);
  });
});

describe('rows of COPY', () => {
  it('are read and written back as they were', () => {
    for (const row of [['a', null, ''], ['\\N', '\t\n\r\b\f\v\\', 'ü\u2028'], [null]]) {
      assert.deepEqual(readCopyRow(writeCopyRow(row).slice(0, -1)), row);
    }
    assert.equal(writeCopyRow(['x\ty', null]), 'x\\ty\t\\N\n');
  });
});
