import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { ObjectStore } from '../../src/drivers/objects/contract.ts';
import { createDirectoryObjects } from '../../src/drivers/objects/directory/driver.ts';
import { fetchArchived, holdsTimelines, sendArchived } from '../../src/engine/backup/archived-timelines.ts';
import { NothingToSend } from '../../src/engine/backup/send-timeline.ts';
import { chunksBelow } from '../../src/engine/objects/chunks.ts';

const ID = 'b5f0f4a6-2f43-4a4c-9d0c-0d6f9f7c1a11';
const OBJECTS = { list: 'all of it', 'chunks/aa/aaaa': 'rows', [`volumes/${ID}`]: 'files' };

describe('an archived timeline in a backup', () => {
  let directory: string;
  const place = (name: string) => createDirectoryObjects({ root: join(directory, name) });
  const archive = async (own: ObjectStore, objects: Readonly<Record<string, string>>) => {
    for (const [name, text] of Object.entries(objects)) {
      await own.put(`timelines/${ID}/archived/${name}`, Buffer.from(text));
    }
  };
  const targetOf = (objects: ObjectStore, known = new Set<string>()) => {
    let sent_bytes = 0;
    const sent = (bytes: number) => {
      sent_bytes += bytes;
    };
    return { objects, chunks: chunksBelow(objects, ''), known, sent, sentBytes: () => sent_bytes };
  };
  const timeline = { id: ID, archived_at: new Date('2026-11-21T10:00:00Z') };

  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'archived-'));
  });
  after(() => rm(directory, { recursive: true, force: true }));

  it('comes back from it whole, and is sent once', async () => {
    const [own, backups, restored] = [place('own'), place('backups'), place('restored')];
    await archive(own, OBJECTS);
    const first = targetOf(backups);
    const stored = await sendArchived(own, timeline, first);
    assert.ok(first.sentBytes() > 0);
    const again = targetOf(backups, first.known);
    assert.deepEqual(await sendArchived(own, timeline, again), stored);
    assert.equal(again.sentBytes(), 0);
    assert.equal(await holdsTimelines(restored), false);
    await fetchArchived(restored, backups, stored);
    assert.equal(await holdsTimelines(restored), true);
    for (const [name, text] of Object.entries(OBJECTS)) {
      assert.equal((await restored.get(`timelines/${ID}/archived/${name}`)).toString(), text);
    }
  });

  it('is another one when it was archived again', async () => {
    const [own, backups] = [place('own-2'), place('backups-2')];
    await archive(own, OBJECTS);
    const target = targetOf(backups);
    const first = await sendArchived(own, timeline, target);
    await archive(own, { list: 'something else' });
    const second = await sendArchived(own, { id: ID, archived_at: new Date('2026-11-21T11:00:00Z') }, target);
    const [before_place, after_place] = [place('restored-first'), place('restored-second')];
    await fetchArchived(before_place, backups, first);
    await fetchArchived(after_place, backups, second);
    const key = `timelines/${ID}/archived/list`;
    assert.equal((await before_place.get(key)).toString(), OBJECTS.list);
    assert.equal((await after_place.get(key)).toString(), 'something else');
  });

  it('that came back meanwhile is nothing to send', async () => {
    const [own, backups] = [place('own-3'), place('backups-3')];
    await assert.rejects(sendArchived(own, timeline, targetOf(backups)), NothingToSend);
    const { list: _, ...half } = OBJECTS;
    await archive(own, half);
    await assert.rejects(sendArchived(own, timeline, targetOf(backups)), NothingToSend);
  });
});
