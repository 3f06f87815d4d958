import { goProgram } from './go-program.ts';

/** The program of an S3 server on plain files; undefined where it cannot be built. */
export const versitygw = (): Promise<string | undefined> =>
  goProgram({ package: 'github.com/versity/versitygw/cmd/versitygw', version: '1.7.0', for: 'S3' });
