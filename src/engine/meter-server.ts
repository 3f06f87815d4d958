import type { EndpointId } from '../domain/ids.ts';
import type { Lsn } from '../domain/lsn.ts';
import type { Session } from '../postgres/session.ts';
import { readWritten } from '../postgres/written.ts';
import { meterWritten } from '../store/metering.ts';
import type { EngineContext } from './context.ts';

/**
 * Adds what an endpoint's server has written since it was last added. What is not looked at before the server ends is added
 * when it runs again.
 *
 * @param known what was found the last time; nothing is added while it is that
 * @returns up to where the log is
 */
export async function meterServer(
  ctx: Pick<EngineContext, 'store'>,
  id: EndpointId,
  session: Session,
  known?: Lsn,
): Promise<Lsn | undefined> {
  const lsn = await readWritten(session);
  if (lsn !== undefined && lsn !== known) await meterWritten(ctx.store, id, lsn);
  return lsn;
}
