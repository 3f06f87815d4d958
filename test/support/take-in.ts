import { createDirectoryArchive } from '../../src/drivers/archive/directory/driver.ts';

/** A program: takes in what a timeline's server has archived, to be killed meanwhile. Arguments: root, timeline. */
const [root, timeline] = process.argv.slice(2) as [string, string];
const driver = createDirectoryArchive({ root });
await driver.takeIn(timeline, (name) => {
  process.stdout.write(`${name}\n`);
  return undefined;
});
process.stdout.write('taken\n');
