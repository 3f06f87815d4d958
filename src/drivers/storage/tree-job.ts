import { type CloneTree, cloneTree } from './clone-tree.ts';
import type { VolumeEntry } from './contract.ts';
import { type ListTree, listTree } from './list-tree.ts';
import { type MeasureTree, measureTree, type TreeSize } from './measure-tree.ts';
import { type SettleTree, settleTree } from './settle-tree.ts';
import { type TrimTree, trimTree } from './trim-tree.ts';

/** Work on a whole tree: hundreds of short synchronous calls, so it runs on a thread of its own. */
export type TreeJob =
  | ({ readonly kind: 'clone' } & CloneTree)
  | ({ readonly kind: 'trim' } & TrimTree)
  | ({ readonly kind: 'settle' } & SettleTree)
  | ({ readonly kind: 'measure' } & MeasureTree)
  | ({ readonly kind: 'list' } & ListTree);

export type TreeResult<Job extends TreeJob> = Job extends { kind: 'measure' }
  ? TreeSize
  : Job extends { kind: 'list' }
    ? VolumeEntry[]
    : undefined;

/** Does a job here and now. `checkpoint` is called often, and throws to stop it. */
export function doTreeJob(job: TreeJob, checkpoint: () => void): TreeResult<TreeJob> {
  switch (job.kind) {
    case 'clone':
      cloneTree(job, checkpoint);
      return undefined;
    case 'trim':
      trimTree(job, checkpoint);
      return undefined;
    case 'settle':
      settleTree(job, checkpoint);
      return undefined;
    case 'measure':
      return measureTree(job, checkpoint);
    case 'list':
      return listTree(job, checkpoint);
  }
}
