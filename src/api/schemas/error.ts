import Type from 'typebox';

/** The body of every error. */
export const ErrorBody = Type.Object({
  request_id: Type.String(),
  code: Type.String(),
  message: Type.String(),
  /** What is in the way, and may be waited for. */
  operation_id: Type.Optional(Type.String()),
});
