import type { TransferRequestRow } from '../../store/schema.ts';
import type { TransferRequest } from '../schemas/transfer.ts';
import { timestamp } from './timestamp.ts';

export function serializeTransferRequest(row: TransferRequestRow): TransferRequest {
  return {
    id: row.id,
    project_id: row.project_id,
    created_at: timestamp(row.created_at),
    expires_at: timestamp(row.expires_at),
  };
}
