import Type from 'typebox';
import { type AuditLogFilter, listAuditLog } from '../../store/audit-log.ts';
import type { Store } from '../../store/connection.ts';
import { reply, route } from '../route.ts';
import { AuditLog } from '../schemas/audit-log.ts';
import { Id } from '../schemas/fields.ts';
import { serializeAuditEntry } from '../serializers/audit-log.ts';

const PAGE_DEFAULT = 100;
const PAGE_MAX = 1000;

const Query = Type.Object({
  project_id: Type.Optional(Id),
  actor: Type.Optional(
    Type.String({ minLength: 1, maxLength: 320, description: 'User id, e-mail address, key id or kind of actor' }),
  ),
  action: Type.Optional(Type.String({ pattern: '^[a-z_]{1,60}\\.[a-z_]{1,60}$', description: '`branch.create`' })),
  from: Type.Optional(Type.String({ format: 'date-time' })),
  to: Type.Optional(Type.String({ format: 'date-time', description: 'Entries from before then' })),
  cursor: Type.Optional(Type.String({ pattern: '^[0-9]{1,15}$', description: 'Where the page before ended' })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: PAGE_MAX })),
});

function filterOf({ from, to, cursor, actor, ...query }: Type.Static<typeof Query>): Omit<AuditLogFilter, 'limit'> {
  return {
    ...query,
    actor: actor?.toLowerCase(),
    from: from === undefined ? undefined : new Date(from),
    to: to === undefined ? undefined : new Date(to),
    before_id: cursor === undefined ? undefined : Number(cursor),
  };
}

/** Everything that the filter finds, page by page, as lines of JSON. */
async function* exported(store: Store, id: string, filter: Omit<AuditLogFilter, 'limit'>): AsyncIterable<string> {
  for (let before_id = filter.before_id; ; ) {
    const rows = await listAuditLog(store, id, { ...filter, before_id, limit: PAGE_MAX });
    if (rows.length > 0) yield rows.map((row) => `${JSON.stringify(serializeAuditEntry(row))}\n`).join('');
    if (rows.length < PAGE_MAX) return;
    before_id = rows.at(-1)!.id;
  }
}

export const auditLogRoutes = [
  route({
    method: 'GET',
    path: '/organizations/:org_id/audit_log',
    permission: 'audit_log.read',
    summary: 'Lists who changed what, newest first; all of it as lines of JSON for who accepts application/x-ndjson',
    schema: { params: Type.Object({ org_id: Id }), querystring: Query, response: { 200: AuditLog } },
    handle: async ({ context, organization, query }) => {
      const { limit = PAGE_DEFAULT } = query;
      const rows = await listAuditLog(context.store, organization.id, { ...filterOf(query), limit });
      const last = rows.at(-1);
      return reply(200, {
        entries: rows.map(serializeAuditEntry),
        pagination: last && { cursor: String(last.id) },
      });
    },
    lines: ({ context, organization, query }) => exported(context.store, organization.id, filterOf(query)),
  }),
];
