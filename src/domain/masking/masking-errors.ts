import type { ErrorKind } from '../errors.ts';

/** The rows of the error table that concern anonymized branches. */
export const MASKING_ERRORS = {
  branch_private: {
    status: 422,
    code: '',
    message: 'branch is private until it is anonymized; branch_id:"{id}", state:"{state}"',
    retry: 'after_change',
  },
  branch_anonymizing: {
    status: 423,
    code: '',
    message: 'branch is being anonymized, and private until that has finished; branch_id:"{id}"',
    retry: 'safe',
  },
  branch_stays_anonymized: {
    status: 422,
    code: '',
    message: 'an anonymized branch cannot become what another branch is; branch_id:"{id}"',
    retry: 'never',
  },
  masking_rule_refused: {
    status: 400,
    code: '',
    message: 'masking rule is refused; rule:"{rule}", problem:"{problem}"',
    retry: 'after_change',
  },
  not_anonymized: {
    status: 422,
    code: '',
    message: 'the branch could not be anonymized: {reason}',
    retry: 'after_change',
  },
} as const satisfies Record<string, ErrorKind>;
