import Type, { type Static } from 'typebox';
import { LIMITS } from '../../domain/limits.ts';
import { Id, Timestamp } from './fields.ts';

export const TransferRequest = Type.Object({
  id: Type.String(),
  project_id: Type.String(),
  created_at: Timestamp,
  expires_at: Timestamp,
});
export type TransferRequest = Static<typeof TransferRequest>;

export const TransferRequestCreate = Type.Union([
  Type.Object({
    ttl_seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMITS.transfer_request_seconds_max })),
  }),
  Type.Null(),
]);
export const TransferAccept = Type.Union([Type.Object({ org_id: Type.Optional(Id) }), Type.Null()]);

export const ProjectsTransfer = Type.Object({
  destination_org_id: Id,
  project_ids: Type.Array(Id, { minItems: 1, maxItems: LIMITS.projects_per_transfer }),
});
