import { parentPort, workerData } from 'node:worker_threads';
import { createTwoFilesPatch, FILE_HEADERS_ONLY } from 'diff';

/** Two texts to compare, and the name that both go by. */
export interface DiffWork {
  readonly name: string;
  readonly base: string;
  readonly schema: string;
}

const { name, base, schema } = workerData as DiffWork;
parentPort!.postMessage(
  createTwoFilesPatch(`a/${name}`, `b/${name}`, base, schema, undefined, undefined, {
    headerOptions: FILE_HEADERS_ONLY,
  }),
);
