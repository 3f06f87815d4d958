import Type from 'typebox';
import { Timestamp } from './fields.ts';

const Event = Type.Object({
  /** What to go on from; it means nothing but that. */
  id: Type.String(),
  type: Type.String(),
  created_at: Timestamp,
  organization_id: Type.Optional(Type.String()),
  project_id: Type.Optional(Type.String()),
  subject_id: Type.String(),
  data: Type.Record(Type.String(), Type.Unknown()),
});

export const EventPage = Type.Object({ events: Type.Array(Event), next: Type.String() });
