import { runGatewayWorker } from '../src/main/gateway-worker.ts';

await runGatewayWorker();
