import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sqlStatements } from '../../src/postgres/sql-statements.ts';

const cut = (script: string): string[] => [...sqlStatements(script)];

test('statements end at semicolons', () => {
  assert.deepEqual(cut('SELECT 1;\n\n-- a comment; still\nSELECT 2 ;'), ['SELECT 1', 'SELECT 2 ']);
  assert.deepEqual(cut('-- nothing\n/* at; /* all; */ */\n'), []);
});

test('semicolons in strings, names, comments and parentheses end nothing', () => {
  for (const statement of [
    "SELECT ';', 'it''s;'",
    "SELECT E'\\';', e'\\\\', 'a\\'",
    'SELECT 1 AS "a"";"',
    'SELECT $$;$$, $a$ ; $$ ; $b$ $a$',
    'SELECT 1 /* ; /* ; */ ; */ + 1',
    'SELECT 1 -- ;\n + 1',
    'CREATE RULE r AS ON INSERT TO t DO ALSO (SELECT 1; SELECT 2)',
  ]) {
    assert.deepEqual(cut(`${statement};SELECT 3;`), [statement, 'SELECT 3'], statement);
  }
});

test('bodies of routines in standard SQL belong to their statement', () => {
  const body = "BEGIN ATOMIC\n SELECT CASE WHEN true THEN CASE WHEN false THEN 'END' END END;\n SELECT 2;\nEND";
  const routine = `CREATE OR REPLACE FUNCTION public.f() RETURNS integer\n    LANGUAGE sql\n    ${body}`;
  assert.deepEqual(cut(`${routine};\nSELECT 3;`), [routine, 'SELECT 3']);
  assert.deepEqual(cut('CREATE FUNCTION public.begin() RETURNS integer AS $$;$$;SELECT 3;').length, 2);
  assert.deepEqual(cut('BEGIN;SELECT 1;END;'), ['BEGIN', 'SELECT 1', 'END']);
});

test('what has no end is refused', () => {
  for (const script of ["SELECT 'a", 'SELECT "a', 'SELECT $a$ $$;', '/* /* */', 'SELECT 1']) {
    assert.throws(() => cut(script), /has no end/, script);
  }
});
