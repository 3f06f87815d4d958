import Type, { type TProperties } from 'typebox';
import type { AccessibleProject } from '../../actions/access.ts';
import { createWebhook } from '../../actions/create-webhook.ts';
import { deleteWebhook } from '../../actions/delete-webhook.ts';
import { findWebhookOf } from '../../actions/find-webhook.ts';
import { redeliver } from '../../actions/redeliver.ts';
import { rotateWebhookSecret } from '../../actions/rotate-webhook-secret.ts';
import { LIMITS } from '../../domain/limits.ts';
import type { OrganizationRow } from '../../store/schema.ts';
import { listDeliveries, listWebhooks, type WebhookOwner } from '../../store/webhooks.ts';
import { type Route, reply, route } from '../route.ts';
import { inOrganization, inProject, Uuid } from '../schemas/fields.ts';
import { Webhook, WebhookCreate, WebhookDelivery, WebhookWithSecret } from '../schemas/webhook.ts';
import { serializeWebhook, serializeWebhookDelivery } from '../serializers/webhook.ts';

/** Where webhooks can be: the same routes below an organisation and below a project. */
interface Place {
  readonly path: '/organizations/:org_id/webhooks' | '/projects/:project_id/webhooks';
  readonly read: 'organization_webhook.read' | 'webhook.read';
  readonly write: 'organization_webhook.write' | 'webhook.write';
  readonly whose: string;
}

const ORGANIZATION: Place = {
  path: '/organizations/:org_id/webhooks',
  read: 'organization_webhook.read',
  write: 'organization_webhook.write',
  whose: 'of an organization',
};
const PROJECT: Place = {
  path: '/projects/:project_id/webhooks',
  read: 'webhook.read',
  write: 'webhook.write',
  whose: 'of a project',
};

/** By the scope of the permission one of the two is there. */
function ownerIn(input: unknown): WebhookOwner {
  const { organization, project } = input as { organization?: OrganizationRow; project?: AccessibleProject };
  if (project) return { organization_id: project.organization_id, project_id: project.id };
  return { organization_id: organization!.id, project_id: null };
}

const paramsOf = ({ path }: Place) =>
  (path.startsWith('/org') ? inOrganization : inProject) as <P extends TProperties>(
    properties: P,
  ) => ReturnType<typeof Type.Object<P>>;

const WebhookId = { webhook_id: Uuid };

function changesIn(place: Place): Route[] {
  const inPlace = paramsOf(place);
  return [
    route({
      method: 'POST',
      path: place.path,
      permission: place.write,
      summary: `Has the events ${place.whose} sent to a URL; the secret that they are signed with is told this once`,
      schema: { params: inPlace({}), body: WebhookCreate, response: { 201: WebhookWithSecret } },
      handle: async (input) => {
        const { webhook, secret } = await createWebhook(input.context, input.caller, ownerIn(input), input.body);
        return reply(201, { webhook: serializeWebhook(webhook), secret });
      },
    }),
    route({
      method: 'DELETE',
      path: `${place.path}/:webhook_id`,
      permission: place.write,
      summary: `Deletes a webhook ${place.whose}`,
      schema: { params: inPlace(WebhookId), response: { 200: Type.Object({ webhook: Webhook }) } },
      handle: async (input) => {
        const webhook = await deleteWebhook(input.context, ownerIn(input), input.params.webhook_id);
        return reply(200, { webhook: serializeWebhook(webhook) });
      },
    }),
    route({
      method: 'POST',
      path: `${place.path}/:webhook_id/rotate_secret`,
      permission: place.write,
      summary: `Gives a webhook ${place.whose} a new secret; the former is good for a day`,
      schema: { params: inPlace(WebhookId), response: { 200: WebhookWithSecret } },
      handle: async (input) => {
        const { webhook, secret } = await rotateWebhookSecret(input.context, ownerIn(input), input.params.webhook_id);
        return reply(200, { webhook: serializeWebhook(webhook), secret });
      },
    }),
    route({
      method: 'POST',
      path: `${place.path}/:webhook_id/deliveries/:delivery_id/redeliver`,
      permission: place.write,
      summary: `Sends an event to a webhook ${place.whose} once more`,
      schema: {
        params: inPlace({ ...WebhookId, delivery_id: Uuid }),
        response: { 201: Type.Object({ delivery: WebhookDelivery }) },
      },
      handle: async (input) => {
        const delivery = await redeliver(input.context, ownerIn(input), input.params);
        return reply(201, { delivery: serializeWebhookDelivery(delivery) });
      },
    }),
  ];
}

function readsIn(place: Place): Route[] {
  const inPlace = paramsOf(place);
  return [
    route({
      method: 'GET',
      path: place.path,
      permission: place.read,
      summary: `Lists the webhooks ${place.whose}`,
      schema: { params: inPlace({}), response: { 200: Type.Object({ webhooks: Type.Array(Webhook) }) } },
      handle: async (input) => {
        const rows = await listWebhooks(input.context.store, ownerIn(input));
        return reply(200, { webhooks: rows.map(serializeWebhook) });
      },
    }),
    route({
      method: 'GET',
      path: `${place.path}/:webhook_id/deliveries`,
      permission: place.read,
      summary: `Lists what was sent to a webhook ${place.whose} or is to be, newest first`,
      schema: {
        params: inPlace(WebhookId),
        querystring: Type.Object({
          cursor: Type.Optional(Uuid),
          limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMITS.webhook_deliveries_page_max })),
        }),
        response: {
          200: Type.Object({
            deliveries: Type.Array(WebhookDelivery),
            pagination: Type.Optional(Type.Object({ cursor: Type.String() })),
          }),
        },
      },
      handle: async (input) => {
        const { id } = await findWebhookOf(input.context, ownerIn(input), input.params.webhook_id);
        const { cursor: before, limit = LIMITS.events_page_default } = input.query;
        const rows = await listDeliveries(input.context.store, id, { before, limit });
        const cursor = rows.at(-1)?.id;
        return reply(200, {
          deliveries: rows.map(serializeWebhookDelivery),
          pagination: cursor ? { cursor } : undefined,
        });
      },
    }),
  ];
}

export const webhookRoutes = [ORGANIZATION, PROJECT].flatMap((place) => [...readsIn(place), ...changesIn(place)]);
