import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { generatedParts, withPart } from '../../scripts/docs.ts';
import { readSourceTree } from './source-tree.ts';

describe('documents agree with the tables of the product', () => {
  const texts = new Map(readSourceTree().map(({ path, text }) => [path, text]));

  for (const part of generatedParts()) {
    test(`${part.path} (npm run docs writes it)`, () => {
      const text = texts.get(part.path) ?? '';
      assert.equal(text, withPart(text, part));
    });
  }

  test('a part that differs is noticed, and its surroundings are kept', () => {
    const part = { path: 'docs/a.md', name: 'a', text: 'new' };
    const document =
      '# A\n\n<!-- generated: a; written by npm run docs -->\n\nold\n\n<!-- end of generated -->\n\nafter\n';
    const written = withPart(document, part);
    assert.notEqual(written, document);
    assert.equal(written, document.replace('old', 'new'));
    assert.equal(withPart(written, part), written);
  });

  test('a document without a place for its part is an error', () => {
    assert.throws(() => withPart('# A\n', { path: 'docs/a.md', name: 'a', text: '' }), /no place for "a"/);
  });
});
