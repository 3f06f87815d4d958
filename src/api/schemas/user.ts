import Type, { type Static } from 'typebox';

export const CurrentUser = Type.Object({
  active_seconds_limit: Type.Integer(),
  auth_accounts: Type.Array(
    Type.Object({
      email: Type.String(),
      image: Type.String(),
      login: Type.String(),
      name: Type.String(),
      provider: Type.String(),
    }),
  ),
  email: Type.String(),
  id: Type.String(),
  image: Type.String(),
  login: Type.String(),
  name: Type.String(),
  last_name: Type.String(),
  projects_limit: Type.Integer(),
  branches_limit: Type.Integer(),
  max_autoscaling_limit: Type.Number(),
  plan: Type.String(),
});
export type CurrentUser = Static<typeof CurrentUser>;

/** What the caller's credential is. */
export const AuthDetails = Type.Object({ account_id: Type.String(), auth_method: Type.String() });
export type AuthDetails = Static<typeof AuthDetails>;
