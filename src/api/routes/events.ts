import Type from 'typebox';
import { type Caller, credentialName } from '../../actions/caller.ts';
import type { ActionContext } from '../../actions/context.ts';
import { eventScopeOf, maySeeEvent } from '../../actions/event-access.ts';
import { CoppiceError } from '../../domain/errors.ts';
import { type EventPosition, formatEventId, isAfter, parseEventId } from '../../domain/event-position.ts';
import { LIMITS } from '../../domain/limits.ts';
import { showEvent } from '../../domain/shown-event.ts';
import { findEventLog, readEvents } from '../../store/events.ts';
import type { EventView } from '../event-streams.ts';
import { reply, route } from '../route.ts';
import { EventPage } from '../schemas/event.ts';
import { Id } from '../schemas/fields.ts';

const STREAM_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  // Proxies hold back what they take for the beginning of something larger.
  'x-accel-buffering': 'no',
  // It is used for nothing else afterwards, and would hold up the end of the server.
  connection: 'close',
};

export const eventRoutes = [
  route({
    method: 'GET',
    path: '/events',
    permission: 'event.read',
    summary: 'Tells what changes: a page, or with Accept: text/event-stream everything from now on',
    schema: {
      querystring: Type.Object({
        project_id: Type.Optional(Id),
        after: Type.Optional(Type.String({ description: 'The id of the last event that was seen' })),
        limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMITS.events_page_max })),
      }),
      response: { 200: EventPage },
    },
    handle: async ({ context, caller, query, headers, streams, reauthenticate }) => {
      const view = await viewOf(context, caller, query.project_id);
      const log = await findEventLog(context.store);
      const given = headers['last-event-id'] ?? query.after;
      const seen = readPosition(given === '' ? undefined : given, log);
      if (headers.accept?.includes('text/event-stream')) {
        const body = streams.open({
          epoch: log.epoch,
          after: typeof seen === 'object' ? seen : log.end,
          begin: seen === 'forgotten' ? 'reset' : 'ready',
          credential: credentialName(caller),
          view,
          look_up: async () => viewOf(context, await reauthenticate(), query.project_id),
        });
        // A stream is sent as it comes, whatever the schema says of the page.
        return { ...reply(200, body as never), headers: STREAM_HEADERS };
      }
      if (seen === 'forgotten') throw new CoppiceError('events_forgotten');
      const limit = query.limit ?? LIMITS.events_page_default;
      const page = await readEvents(context.store, seen ?? log.forgotten, { limit, scope: view.scope });
      return reply(200, {
        events: page.events.filter(view.maySee).map((event) => showEvent(log.epoch, event)),
        next: formatEventId(log.epoch, page.position),
      });
    },
  }),
];

async function viewOf(context: ActionContext, caller: Caller, project_id: string | undefined): Promise<EventView> {
  const scope = await eventScopeOf(context, caller, project_id);
  return { scope, maySee: (event) => maySeeEvent(caller, scope, event) };
}

/** `forgotten` where events may be missing between it and what is kept. Throws `invalid_request` for what is no id. */
function readPosition(
  text: string | string[] | undefined,
  { epoch, forgotten }: Awaited<ReturnType<typeof findEventLog>>,
): EventPosition | 'forgotten' | undefined {
  if (text === undefined) return undefined;
  const seen = typeof text === 'string' ? parseEventId(text) : undefined;
  if (!seen) throw new CoppiceError('invalid_request', { field: 'after', problem: 'is not the id of an event' });
  return seen.epoch !== epoch || isAfter(forgotten, seen.position) ? 'forgotten' : seen.position;
}
