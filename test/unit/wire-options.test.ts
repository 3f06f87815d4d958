import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parsePrefixedPassword } from '../../src/wire/password-prefix.ts';
import { passwordForms } from '../../src/wire/saslprep.ts';
import { parseStartupOptions } from '../../src/wire/startup-options.ts';

describe('the options parameter', () => {
  const cases: [string, string | undefined, string][] = [
    ['', undefined, ''],
    ['endpoint=ep-x', 'ep-x', ''],
    ['project=ep-x', 'ep-x', ''],
    ['  endpoint=ep-x\t-c search_path=a', 'ep-x', '-c search_path=a'],
    ['-c search_path=a endpoint=ep-x -c b=c', 'ep-x', '-c search_path=a -c b=c'],
    ['endpoint=a endpoint=b -c x=y', undefined, '-c x=y'],
    ['endpoint=a project=a', undefined, ''],
    ['-c search_path=a\\ b endpoint=ep-x', 'ep-x', '-c search_path=a\\ b'],
    ['-c a=x\\ endpoint=ep-x', undefined, '-c a=x\\ endpoint=ep-x'],
    ['end\\point=ep-x', 'ep-x', ''],
    ['xendpoint=ep-x', undefined, 'xendpoint=ep-x'],
    ['endpoint=', '', ''],
    ['-c a=b\\', undefined, '-c a=b\\'],
  ];
  for (const [options, endpoint, forwarded] of cases) {
    it(`reads ${JSON.stringify(options)}`, () => {
      assert.deepEqual(parseStartupOptions(options), { endpoint, platform: [], forwarded });
    });
  }

  const wishes: [string, [string, string][], string][] = [
    ['neon_timestamp:2026-11-21T00:00:00Z', [['timestamp', '2026-11-21T00:00:00Z']], ''],
    [
      '-c a=b neon_lsn:0/1A2B neon_x:y:z -c c=d',
      [
        ['lsn', '0/1A2B'],
        ['x', 'y:z'],
      ],
      '-c a=b -c c=d',
    ],
    ['neon_timestamp:2026-11-21\\ 00:00:00Z', [['timestamp', '2026-11-21 00:00:00Z']], ''],
    ['neon_lsn: neon_x xneon_lsn:0/1', [['lsn', '']], 'neon_x xneon_lsn:0/1'],
  ];
  for (const [options, platform, forwarded] of wishes) {
    it(`keeps to the platform what ${JSON.stringify(options)} asks of it`, () => {
      assert.deepEqual(parseStartupOptions(options), { endpoint: undefined, platform, forwarded });
    });
  }
});

describe('a password with the endpoint in front', () => {
  const cases: [string, { endpoint: string; password: string } | undefined][] = [
    ['endpoint=ep-x;secret', { endpoint: 'ep-x', password: 'secret' }],
    ['endpoint=ep-x$secret', { endpoint: 'ep-x', password: 'secret' }],
    ['project=ep-x;a;b$c', { endpoint: 'ep-x', password: 'a;b$c' }],
    ['endpoint=ep-x$a;b', { endpoint: 'ep-x$a', password: 'b' }],
    ['endpoint=ep-x$a$b', { endpoint: 'ep-x', password: 'a$b' }],
    ['endpoint=ep-x', undefined],
    ['secret', undefined],
    ['', undefined],
    ['Endpoint=ep-x;secret', undefined],
  ];
  for (const [text, expected] of cases) {
    it(`reads ${JSON.stringify(text)}`, () => assert.deepEqual(parsePrefixedPassword(text), expected));
  }
});

describe('the forms of a password', () => {
  it('are the password itself for plain ASCII', () => assert.deepEqual(passwordForms('pa$$ word'), ['pa$$ word']));
  it('are the prepared one first for compatibility characters', () => {
    assert.deepEqual(passwordForms('\u2168'), ['IX', '\u2168']);
    assert.deepEqual(passwordForms('a\u00a0b'), ['a b', 'a\u00a0b']);
    assert.deepEqual(passwordForms('I\u00adX'), ['IX', 'I\u00adX']);
  });
});
