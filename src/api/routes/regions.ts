import Type from 'typebox';
import { reply, route } from '../route.ts';
import { Id } from '../schemas/fields.ts';

const Region = Type.Object({
  region_id: Type.String(),
  name: Type.String(),
  default: Type.Boolean(),
  geo_lat: Type.String(),
  geo_long: Type.String(),
});

export const regionRoutes = [
  route({
    method: 'GET',
    path: '/regions',
    permission: 'regions.list',
    summary: 'Lists the regions: an installation has one',
    schema: {
      querystring: Type.Object({ org_id: Type.Optional(Id) }),
      response: { 200: Type.Object({ regions: Type.Array(Region) }) },
    },
    handle: async ({ context }) => {
      const { region_id } = context.installation;
      return reply(200, { regions: [{ region_id, name: region_id, default: true, geo_lat: '', geo_long: '' }] });
    },
  }),
];
