import type { CallAnswer } from './api-server.ts';
import type { Answered, Model } from './serial-order.ts';

/** What callers do to the branches and keys of a project. */
export type Deed =
  | { readonly does: 'create'; readonly name: string }
  | { readonly does: 'rename'; readonly id: string; readonly name: string }
  | { readonly does: 'protect'; readonly id: string; readonly to: boolean }
  | { readonly does: 'delete' | 'set_as_default' | 'restore' | 'start' | 'suspend' | 'show'; readonly id: string }
  | { readonly does: 'list' }
  | { readonly does: 'revoke' | 'use'; readonly key_id: string };

export interface DoneDeed extends Answered {
  readonly deed: Deed;
  readonly answer: CallAnswer;
  readonly request_id: string;
}

interface ModelBranch {
  readonly name: string;
  readonly protected: boolean;
}

/** Of a project: what a caller who does one thing after the other would know of it. */
export interface ModelState {
  /** Null: it was there. */
  readonly branches: Readonly<Record<string, ModelBranch | null>>;
  readonly default_id: string;
  /** True while it is valid. */
  readonly keys: Readonly<Record<string, boolean>>;
}

type Step = (state: ModelState, done: DoneDeed) => ModelState | undefined;

/** `then` where the condition holds, else no explanation. */
const given = (condition: boolean, then: ModelState): ModelState | undefined => (condition ? then : undefined);

const withBranch = (state: ModelState, id: string, branch: ModelBranch | null): ModelState => ({
  ...state,
  branches: { ...state.branches, [id]: branch },
});

const isTaken = ({ branches }: ModelState, name: string, by_other_than?: string): boolean =>
  Object.entries(branches).some(([id, branch]) => branch?.name === name && id !== by_other_than);

const shown = (id: string, { name, protected: guarded }: ModelBranch, default_id: string) =>
  JSON.stringify([id, name, guarded, id === default_id]);

// biome-ignore lint/suspicious/noExplicitAny: as the API shows it.
const answered = (branch: any) => JSON.stringify([branch.id, branch.name, branch.protected, branch.default]);

const create: Step = (state, { deed, answer }) => {
  const { name } = deed as Deed & { does: 'create' };
  if (answer.status === 409) return given(isTaken(state, name), state);
  const { id } = answer.body.branch;
  return given(!isTaken(state, name), withBranch(state, id, { name, protected: false }));
};

const remove = (state: ModelState, id: string, status: number): ModelState | undefined => {
  const branch = state.branches[id];
  const held = branch?.protected || id === state.default_id;
  if (status === 204) return given(!branch, state);
  if (status === 422) return given(branch != null && held === true, state);
  return given(branch != null && !held, withBranch(state, id, null));
};

/** What is done to one branch, and is refused with 404 where that is not there. */
const onBranch: Step = (state, { deed, answer: { status, body } }) => {
  const { id } = deed as Deed & { id: string };
  const branch = state.branches[id];
  if (deed.does === 'delete') return remove(state, id, status);
  if (status === 404) return given(!branch, state);
  if (!branch) return undefined;
  switch (deed.does) {
    case 'rename':
      if (status === 409) return given(isTaken(state, deed.name, id), state);
      return given(!isTaken(state, deed.name, id), withBranch(state, id, { ...branch, name: deed.name }));
    case 'protect':
      return withBranch(state, id, { ...branch, protected: deed.to });
    case 'set_as_default':
      return { ...state, default_id: id };
    case 'restore':
      return given(branch.protected === (status === 422), state);
    case 'show':
      return given(answered(body.branch) === shown(id, branch, state.default_id), state);
    default:
      return state;
  }
};

const list: Step = (state, { answer }) => {
  const there = Object.entries(state.branches).flatMap(([id, branch]) =>
    branch ? [shown(id, branch, state.default_id)] : [],
  );
  const said = answer.body.branches.map(answered);
  return given(JSON.stringify(said.sort()) === JSON.stringify(there.sort()), state);
};

const onKey: Step = (state, { deed, answer: { status } }) => {
  const { key_id } = deed as Deed & { key_id: string };
  const valid = state.keys[key_id] === true;
  if (status >= 400) return given(!valid, state);
  return given(valid, deed.does === 'use' ? state : { ...state, keys: { ...state.keys, [key_id]: false } });
};

const EXPECTED: Readonly<Record<Deed['does'], readonly number[]>> = {
  create: [201, 409],
  rename: [200, 404, 409],
  protect: [200, 404],
  delete: [200, 204, 422],
  set_as_default: [200, 404],
  restore: [200, 404, 422],
  start: [200, 404],
  suspend: [200, 404],
  show: [200, 404],
  list: [200],
  revoke: [200, 404],
  use: [200, 401],
};

/** Something else was under way: nothing was done, and the caller may ask again. */
export const wasPutOff = ({ answer: { status, body } }: DoneDeed): boolean =>
  status === 423 || (status === 422 && /not ready/.test(body.message));

/** The branches and keys of a project as one caller after the other would find them. */
export const branchModel = (initial: ModelState): Model<ModelState, DoneDeed> => ({
  initial,
  step: (state, done) => {
    const { does } = done.deed;
    if (wasPutOff(done)) return state;
    if (!EXPECTED[does].includes(done.answer.status)) return undefined;
    if (does === 'create') return create(state, done);
    if (does === 'list') return list(state, done);
    if (does === 'revoke' || does === 'use') return onKey(state, done);
    return onBranch(state, done);
  },
});
