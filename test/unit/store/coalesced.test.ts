import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { coalesced } from '../../../src/store/coalesced.ts';
import type { Store } from '../../../src/store/connection.ts';

/** Only its identity matters here, and that it is no transaction. */
const newStore = () => ({ isTransaction: false }) as Store;

/** A find-many that waits to be told what it found. */
function gatedLoad() {
  const sent: { keys: string[]; answer: PromiseWithResolvers<Map<string, string>> }[] = [];
  const find = coalesced<string, string>((_, keys) => {
    const answer = Promise.withResolvers<Map<string, string>>();
    sent.push({ keys, answer });
    return answer.promise;
  });
  return { sent, find };
}

const turn = () => new Promise((done) => setImmediate(done));
const found = (...keys: string[]) => new Map(keys.map((key) => [key, `row of ${key}`]));

describe('coalesced finds', () => {
  it('of one turn share a statement, and a key is asked for once', async () => {
    const { sent, find } = gatedLoad();
    const store = newStore();
    const asked = [find(store, 'a'), find(store, 'b'), find(store, 'a')];
    await turn();
    assert.deepEqual(
      sent.map(({ keys }) => keys),
      [['a', 'b']],
    );
    sent[0]!.answer.resolve(found('a'));
    assert.deepEqual(await Promise.all(asked), ['row of a', undefined, 'row of a']);
  });

  it('never join a statement that was sent already', async () => {
    const { sent, find } = gatedLoad();
    const store = newStore();
    const early = find(store, 'a');
    await turn();
    const late = find(store, 'a');
    await turn();
    assert.equal(sent.length, 2);
    sent[1]!.answer.resolve(new Map([['a', 'new']]));
    assert.equal(await late, 'new');
    sent[0]!.answer.resolve(new Map([['a', 'old']]));
    assert.equal(await early, 'old');
  });

  it('wait for a statement to end while two are under way, and then go together', async () => {
    const { sent, find } = gatedLoad();
    const store = newStore();
    const all: Promise<string | undefined>[] = [];
    for (const key of ['a', 'b', 'c', 'd']) {
      all.push(find(store, key));
      await turn();
    }
    assert.equal(sent.length, 2);
    sent[0]!.answer.resolve(found('a'));
    await turn();
    await turn();
    assert.deepEqual(sent[2]?.keys, ['c', 'd']);
    sent[1]!.answer.resolve(found('b'));
    sent[2]!.answer.resolve(found('c', 'd'));
    assert.equal((await Promise.all(all)).length, 4);
  });

  it('fail together with their statement, and the next one is tried', async () => {
    const { sent, find } = gatedLoad();
    const store = newStore();
    const asked = [find(store, 'a'), find(store, 'b')];
    await turn();
    sent[0]!.answer.reject(new Error('the store is away'));
    for (const one of await Promise.allSettled(asked)) assert.equal(one.status, 'rejected');
    const again = find(store, 'a');
    await turn();
    sent[1]!.answer.resolve(found('a'));
    assert.equal(await again, 'row of a');
  });

  it('of a transaction are sent at once, each by itself', async () => {
    const { sent, find } = gatedLoad();
    const transaction = { isTransaction: true } as Store;
    const asked = [find(transaction, 'a'), find(transaction, 'a')];
    assert.equal(sent.length, 2);
    for (const { answer } of sent) answer.resolve(found('a'));
    assert.deepEqual(await Promise.all(asked), ['row of a', 'row of a']);
  });
});
