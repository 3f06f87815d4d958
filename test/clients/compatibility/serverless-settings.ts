import { neonConfig } from '@neondatabase/serverless';
import type { Place } from './matrix-client.ts';

/** Tells the serverless driver of this process to ask a Coppice on this machine, as docs/gateway.md says. */
export function setUpServerless({ api_port }: Place): void {
  Object.assign(neonConfig, {
    fetchEndpoint: () => `http://localhost:${api_port}/sql`,
    wsProxy: `localhost:${api_port}/v2`,
    useSecureWebSocket: false,
  });
}
