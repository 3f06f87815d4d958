import { LIMITS } from '../domain/limits.ts';
import { createLogger } from '../watch/logger.ts';
import { type CrewMessage, type CrewPipe, openCrewChannel } from './crew-channel.ts';
import type { WorkerOrder } from './gateway-crew.ts';
import type { CrewMate } from './open-gate.ts';
import { type Coppice, startCoppice } from './start.ts';

/** Runs one process of a gateway, as the main process orders it through the pipe, until that says stop or is gone. */
export async function runGatewayWorker(): Promise<void> {
  const pipe = process as unknown as CrewPipe & NodeJS.Process;
  const { settings, slot, processes } = await new Promise<WorkerOrder>((resolve) => {
    pipe.once('message', (order) => resolve(order as WorkerOrder));
  });
  const logger = createLogger({ level: settings.log_level });
  let coppice: Coppice | undefined;
  // Who asks before hears nothing.
  const started = () => {
    if (coppice) return coppice;
    throw new Error('this process does not serve yet');
  };
  const channel = openCrewChannel(
    pipe,
    {
      cancel: async (request) => coppice?.answers.cancel(request),
      connections: async (asked) => started().answers.connections(asked),
      metrics: async () => started().answers.metrics(undefined),
    },
    { questions_max: LIMITS.gateway_questions, timeout_ms: 2 * LIMITS.cancel_timeout_ms },
  );
  const stop = async () => {
    channel.tell({ type: 'leaving' });
    await coppice?.stop();
    process.exit(0);
  };
  // A terminal sends it to all; the main process says what is to be done.
  process.on('SIGINT', () => undefined);
  process.once('SIGTERM', () => void stop());
  pipe.on('message', ({ type }: CrewMessage) => {
    if (type === 'stop') void stop();
  });
  try {
    const cancel: CrewMate['cancel'] = async (request) => void (await channel.ask('cancel', request));
    const crew: CrewMate = { slot, processes, cancel };
    coppice = await startCoppice(settings, { logger, progress: () => undefined, crew });
  } catch (error) {
    // Not before it is written: it would end with us.
    const { message: reason } = error as Error;
    pipe.send({ type: 'failed', reason } satisfies CrewMessage, () => process.exit(1));
    return;
  }
  channel.tell({ type: 'ready' });
}
