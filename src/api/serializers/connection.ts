import {
  type ConnectionTarget,
  connectionHost,
  connectionUri,
  type HostNaming,
} from '../../domain/connection-string.ts';
import type { ConnectionDetails } from '../schemas/connection.ts';

/** A connection string with its parts. The string names `host`, so that clients can put `pooler_host` in its place. */
export function serializeConnection(target: ConnectionTarget, naming: HostNaming): ConnectionDetails {
  const { endpoint_id, database, password, role } = target;
  return {
    connection_uri: connectionUri(naming, target),
    connection_parameters: {
      database,
      password,
      role,
      host: connectionHost(naming, endpoint_id),
      pooler_host: connectionHost(naming, endpoint_id, true),
    },
  };
}
