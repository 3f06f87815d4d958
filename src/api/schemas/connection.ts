import Type, { type Static } from 'typebox';

export const ConnectionDetails = Type.Object({
  connection_uri: Type.String(),
  connection_parameters: Type.Object({
    database: Type.String(),
    password: Type.String(),
    role: Type.String(),
    host: Type.String(),
    pooler_host: Type.String(),
  }),
});
export type ConnectionDetails = Static<typeof ConnectionDetails>;
