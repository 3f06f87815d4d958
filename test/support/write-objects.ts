import { createDirectoryObjects } from '../../src/drivers/objects/directory/driver.ts';
import { createS3Objects } from '../../src/drivers/objects/s3/driver.ts';
import { S3_CREDENTIALS } from './s3-server.ts';

/** Run as a program: puts objects without an end, to be killed. Arguments: a directory, or an endpoint and a bucket. */
const [place = '', bucket] = process.argv.slice(2);
const objects = bucket
  ? createS3Objects({ bucket, prefix: 'coppice', region: 'us-east-1', endpoint: place, credentials: S3_CREDENTIALS })
  : createDirectoryObjects({ root: place });
const piece = Buffer.alloc(1024 ** 2, 'x');
async function* endless() {
  for (let count = 0; ; count += 1) {
    yield piece;
    if (count === 40) process.stdout.write('some of it is written\n');
  }
}
await objects.putStream('killed', endless());
