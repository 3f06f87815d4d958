import Type, { type Static } from 'typebox';
import { Timestamp } from './fields.ts';

export const Organization = Type.Object({
  id: Type.String(),
  name: Type.String(),
  handle: Type.String(),
  plan: Type.String(),
  managed_by: Type.String(),
  created_at: Timestamp,
  updated_at: Timestamp,
});
export type Organization = Static<typeof Organization>;
