/**
 * What becomes of each operation of the public API here: one row for each, named as its OpenAPI file names them. Rows of
 * what is not available are served by routes/unavailable.ts; docs/compatibility.md shows the table, and a test holds the
 * server against every row of it.
 */

export type PublicOperation =
  /** As the public API has it. */
  | { readonly answer: 'served' }
  /** Served, with less behind it. */
  | { readonly answer: 'degraded'; readonly how: string }
  /** 404 `... is not enabled`, which clients take for "switched off", or 501 `... is not available on this server`. */
  | { readonly answer: 'not_enabled' | 'not_available'; readonly feature: string; readonly why: string }
  /** 404 `this route does not exist`, which clients take for "this server does not have it". */
  | { readonly answer: 'no_route'; readonly why: string };

const served = { answer: 'served' } as const;
const degraded = (how: string) => ({ answer: 'degraded', how }) as const;
const noRoute = (why: string) => ({ answer: 'no_route', why }) as const;
const notEnabled = (feature: string, why: string) => ({ answer: 'not_enabled', feature, why }) as const;
const notAvailable = (feature: string, why: string) => ({ answer: 'not_available', feature, why }) as const;

const AUTH_REASON = 'accounts of an application are a service of their own';
const authOff = notEnabled('Auth', AUTH_REASON);
const legacyAuth = noRoute('withdrawn by the public API itself');
const DATA_API_REASON = 'REST over a database is a service of its own; what speaks Postgres can be put before it';
const dataApiOff = notEnabled('Data API', DATA_API_REASON);
const vpc = notAvailable('a VPC endpoint', 'there is no private network of a cloud');
const noVpc = degraded('an empty list: there is no private network of a cloud');
const masked = degraded('our own versions of the functions of PostgreSQL Anonymizer; the extension is not needed');
const buckets = noRoute('object storage for applications is no database');
const functions = noRoute('functions are no database');
const credentials = noRoute('they are for buckets, functions and the AI gateway');

const account: Record<string, PublicOperation> = {
  'GET /api_keys': served,
  'POST /api_keys': served,
  'DELETE /api_keys/{key_id}': served,
  'GET /auth': served,
  'GET /regions': degraded('one region, since one installation is one region'),
  'GET /users/me': served,
  'GET /users/me/organizations': served,
  'POST /users/me/projects/transfer': served,
  'GET /consumption_history/projects': served,
  'GET /consumption_history/v2/branches': served,
  'GET /consumption_history/v2/projects': degraded(
    '`extra_branches_month` is 0: no plan includes a number of branches',
  ),
};

const organizations: Record<string, PublicOperation> = {
  'GET /organizations/{org_id}': served,
  'GET /organizations/{org_id}/api_keys': served,
  'POST /organizations/{org_id}/api_keys': served,
  'DELETE /organizations/{org_id}/api_keys/{key_id}': served,
  'GET /organizations/{org_id}/billing/spending_limit': degraded('there is none: nothing costs money'),
  'PUT /organizations/{org_id}/billing/spending_limit': notAvailable('a spending limit', 'nothing costs money'),
  'DELETE /organizations/{org_id}/billing/spending_limit': degraded('nothing to remove'),
  'GET /organizations/{org_id}/invitations': served,
  'POST /organizations/{org_id}/invitations': degraded('the roles `admin` and `member`'),
  'GET /organizations/{org_id}/members': served,
  'GET /organizations/{org_id}/members/{member_id}': served,
  'PATCH /organizations/{org_id}/members/{member_id}': degraded('the roles `admin` and `member`'),
  'DELETE /organizations/{org_id}/members/{member_id}': served,
  'GET /organizations/{org_id}/vpc/vpc_endpoints': noVpc,
  'GET /organizations/{org_id}/vpc/region/{region_id}/vpc_endpoints': noVpc,
  'GET /organizations/{org_id}/vpc/region/{region_id}/vpc_endpoints/{vpc_endpoint_id}': vpc,
  'POST /organizations/{org_id}/vpc/region/{region_id}/vpc_endpoints/{vpc_endpoint_id}': vpc,
  'DELETE /organizations/{org_id}/vpc/region/{region_id}/vpc_endpoints/{vpc_endpoint_id}': vpc,
  'POST /organizations/{source_org_id}/projects/transfer': served,
};

const projects: Record<string, PublicOperation> = {
  'GET /projects': degraded('`recoverable=true` lists projects where deleted ones are kept, which is a setting'),
  'POST /projects': degraded('settings that nothing would enforce are refused with 501'),
  'GET /projects/shared': served,
  'GET /projects/{project_id}': served,
  'PATCH /projects/{project_id}': degraded('settings that nothing would enforce are refused with 501'),
  'DELETE /projects/{project_id}': degraded('for good, unless deleted projects are kept, which is a setting'),
  'POST /projects/{project_id}/recover': degraded('where deleted projects are kept, which is a setting'),
  'GET /projects/{project_id}/advisors': degraded('three lints'),
  'GET /projects/{project_id}/available_preload_libraries': degraded('two libraries'),
  'GET /projects/{project_id}/connection_uri': served,
  'GET /projects/{project_id}/jwks': served,
  'POST /projects/{project_id}/jwks': served,
  'DELETE /projects/{project_id}/jwks/{jwks_id}': served,
  'GET /projects/{project_id}/operations': served,
  'GET /projects/{project_id}/operations/{operation_id}': served,
  'GET /projects/{project_id}/permissions': served,
  'POST /projects/{project_id}/permissions': served,
  'DELETE /projects/{project_id}/permissions/{permission_id}': served,
  'POST /projects/{project_id}/transfer_requests': served,
  'PUT /projects/{project_id}/transfer_requests/{request_id}': served,
  'GET /projects/{project_id}/vpc_endpoints': noVpc,
  'POST /projects/{project_id}/vpc_endpoints/{vpc_endpoint_id}': vpc,
  'DELETE /projects/{project_id}/vpc_endpoints/{vpc_endpoint_id}': vpc,
};

const branches: Record<string, PublicOperation> = {
  'GET /projects/{project_id}/branches': degraded(
    '`include_deleted=true` adds some where deleted ones are kept, which is a setting',
  ),
  'POST /projects/{project_id}/branches': served,
  'GET /projects/{project_id}/branches/count': served,
  'GET /projects/{project_id}/branches/{branch_id}': served,
  'PATCH /projects/{project_id}/branches/{branch_id}': served,
  'DELETE /projects/{project_id}/branches/{branch_id}': degraded(
    'for good, unless deleted branches are kept, which is a setting',
  ),
  'POST /projects/{project_id}/branches/{branch_id}/recover': degraded(
    'where deleted branches are kept, which is a setting',
  ),
  'POST /projects/{project_id}/branches/{branch_id}/restore': served,
  'POST /projects/{project_id}/branches/{branch_id}/set_as_default': served,
  'GET /projects/{project_id}/branches/{branch_id}/schema': served,
  'GET /projects/{project_id}/branches/{branch_id}/compare_schema': served,
  'GET /projects/{project_id}/branches/{branch_id}/endpoints': served,
  'POST /projects/{project_id}/branch_anonymized': masked,
  'GET /projects/{project_id}/branches/{branch_id}/masking_rules': served,
  'PATCH /projects/{project_id}/branches/{branch_id}/masking_rules': masked,
  'GET /projects/{project_id}/branches/{branch_id}/anonymized_status': served,
  'POST /projects/{project_id}/branches/{branch_id}/anonymize': served,
};

const snapshots: Record<string, PublicOperation> = {
  'POST /projects/{project_id}/branches/{branch_id}/snapshot': served,
  'GET /projects/{project_id}/snapshots': served,
  'PATCH /projects/{project_id}/snapshots/{snapshot_id}': served,
  'DELETE /projects/{project_id}/snapshots/{snapshot_id}': served,
  'POST /projects/{project_id}/snapshots/{snapshot_id}/restore': served,
  'POST /projects/{project_id}/branches/{branch_id}/finalize_restore': served,
  'GET /projects/{project_id}/branches/{branch_id}/backup_schedule': served,
  'PUT /projects/{project_id}/branches/{branch_id}/backup_schedule': served,
};

const endpoints: Record<string, PublicOperation> = {
  'GET /projects/{project_id}/endpoints': served,
  'POST /projects/{project_id}/endpoints': served,
  'GET /projects/{project_id}/endpoints/{endpoint_id}': served,
  'PATCH /projects/{project_id}/endpoints/{endpoint_id}': served,
  'DELETE /projects/{project_id}/endpoints/{endpoint_id}': served,
  'POST /projects/{project_id}/endpoints/{endpoint_id}/start': served,
  'POST /projects/{project_id}/endpoints/{endpoint_id}/suspend': served,
  'POST /projects/{project_id}/endpoints/{endpoint_id}/restart': served,
};

const rolesAndDatabases: Record<string, PublicOperation> = {
  'GET /projects/{project_id}/branches/{branch_id}/databases': served,
  'POST /projects/{project_id}/branches/{branch_id}/databases': served,
  'GET /projects/{project_id}/branches/{branch_id}/databases/{database_name}': served,
  'PATCH /projects/{project_id}/branches/{branch_id}/databases/{database_name}': served,
  'DELETE /projects/{project_id}/branches/{branch_id}/databases/{database_name}': served,
  'GET /projects/{project_id}/branches/{branch_id}/roles': served,
  'POST /projects/{project_id}/branches/{branch_id}/roles': served,
  'GET /projects/{project_id}/branches/{branch_id}/roles/{role_name}': served,
  'DELETE /projects/{project_id}/branches/{branch_id}/roles/{role_name}': served,
  'GET /projects/{project_id}/branches/{branch_id}/roles/{role_name}/reveal_password': served,
  'POST /projects/{project_id}/branches/{branch_id}/roles/{role_name}/reset_password': served,
};

const dataApiAndAuth: Record<string, PublicOperation> = {
  'GET /projects/{project_id}/branches/{branch_id}/data-api/{database_name}': dataApiOff,
  'POST /projects/{project_id}/branches/{branch_id}/data-api/{database_name}': notAvailable(
    'Data API',
    DATA_API_REASON,
  ),
  'PATCH /projects/{project_id}/branches/{branch_id}/data-api/{database_name}': dataApiOff,
  'DELETE /projects/{project_id}/branches/{branch_id}/data-api/{database_name}': dataApiOff,
  'GET /projects/{project_id}/branches/{branch_id}/auth': authOff,
  'POST /projects/{project_id}/branches/{branch_id}/auth': notAvailable('Auth', AUTH_REASON),
  'DELETE /projects/{project_id}/branches/{branch_id}/auth': authOff,
  'GET /projects/{project_id}/branches/{branch_id}/auth/allow_localhost': authOff,
  'PATCH /projects/{project_id}/branches/{branch_id}/auth/allow_localhost': authOff,
  'PATCH /projects/{project_id}/branches/{branch_id}/auth/config': authOff,
  'GET /projects/{project_id}/branches/{branch_id}/auth/domains': authOff,
  'POST /projects/{project_id}/branches/{branch_id}/auth/domains': authOff,
  'DELETE /projects/{project_id}/branches/{branch_id}/auth/domains': authOff,
  'GET /projects/{project_id}/branches/{branch_id}/auth/email_and_password': authOff,
  'PATCH /projects/{project_id}/branches/{branch_id}/auth/email_and_password': authOff,
  'GET /projects/{project_id}/branches/{branch_id}/auth/email_provider': authOff,
  'PATCH /projects/{project_id}/branches/{branch_id}/auth/email_provider': authOff,
  'GET /projects/{project_id}/branches/{branch_id}/auth/oauth_providers': authOff,
  'POST /projects/{project_id}/branches/{branch_id}/auth/oauth_providers': authOff,
  'PATCH /projects/{project_id}/branches/{branch_id}/auth/oauth_providers/{oauth_provider_id}': authOff,
  'DELETE /projects/{project_id}/branches/{branch_id}/auth/oauth_providers/{oauth_provider_id}': authOff,
  'GET /projects/{project_id}/branches/{branch_id}/auth/plugins': authOff,
  'PATCH /projects/{project_id}/branches/{branch_id}/auth/plugins/magic-link': authOff,
  'PATCH /projects/{project_id}/branches/{branch_id}/auth/plugins/organization': authOff,
  'GET /projects/{project_id}/branches/{branch_id}/auth/plugins/phone-number': authOff,
  'PATCH /projects/{project_id}/branches/{branch_id}/auth/plugins/phone-number': authOff,
  'POST /projects/{project_id}/branches/{branch_id}/auth/send_test_email': authOff,
  'POST /projects/{project_id}/branches/{branch_id}/auth/users': authOff,
  'DELETE /projects/{project_id}/branches/{branch_id}/auth/users/{auth_user_id}': authOff,
  'PUT /projects/{project_id}/branches/{branch_id}/auth/users/{auth_user_id}/role': authOff,
  'GET /projects/{project_id}/branches/{branch_id}/auth/webhooks': authOff,
  'PUT /projects/{project_id}/branches/{branch_id}/auth/webhooks': authOff,
  'POST /projects/auth/create': legacyAuth,
  'POST /projects/auth/keys': legacyAuth,
  'POST /projects/auth/transfer_ownership': legacyAuth,
  'POST /projects/auth/user': legacyAuth,
  'GET /projects/{project_id}/auth/domains': legacyAuth,
  'POST /projects/{project_id}/auth/domains': legacyAuth,
  'DELETE /projects/{project_id}/auth/domains': legacyAuth,
  'GET /projects/{project_id}/auth/email_server': legacyAuth,
  'PATCH /projects/{project_id}/auth/email_server': legacyAuth,
  'DELETE /projects/{project_id}/auth/integration/{auth_provider}': legacyAuth,
  'GET /projects/{project_id}/auth/integrations': legacyAuth,
  'GET /projects/{project_id}/auth/oauth_providers': legacyAuth,
  'POST /projects/{project_id}/auth/oauth_providers': legacyAuth,
  'PATCH /projects/{project_id}/auth/oauth_providers/{oauth_provider_id}': legacyAuth,
  'DELETE /projects/{project_id}/auth/oauth_providers/{oauth_provider_id}': legacyAuth,
  'DELETE /projects/{project_id}/auth/users/{auth_user_id}': legacyAuth,
};

const platform: Record<string, PublicOperation> = {
  'GET /projects/{project_id}/branches/{branch_id}/ai_gateway': noRoute('a gateway to language models is no database'),
  'GET /projects/{project_id}/branches/{branch_id}/storage': buckets,
  'GET /projects/{project_id}/branches/{branch_id}/buckets': buckets,
  'POST /projects/{project_id}/branches/{branch_id}/buckets': buckets,
  'DELETE /projects/{project_id}/branches/{branch_id}/buckets/{bucket_name}': buckets,
  'GET /projects/{project_id}/branches/{branch_id}/buckets/{bucket_name}/objects': buckets,
  'DELETE /projects/{project_id}/branches/{branch_id}/buckets/{bucket_name}/objects-by-prefix': buckets,
  'DELETE /projects/{project_id}/branches/{branch_id}/buckets/{bucket_name}/objects/{object_key}': buckets,
  'GET /projects/{project_id}/branches/{branch_id}/buckets/{bucket_name}/objects/{object_key}/download': buckets,
  'POST /projects/{project_id}/branches/{branch_id}/buckets/{bucket_name}/objects/{object_key}/presign': buckets,
  'GET /projects/{project_id}/branches/{branch_id}/credentials': credentials,
  'POST /projects/{project_id}/branches/{branch_id}/credentials': credentials,
  'DELETE /projects/{project_id}/branches/{branch_id}/credentials/{token_id}': credentials,
  'GET /projects/{project_id}/branches/{branch_id}/functions': functions,
  'GET /projects/{project_id}/branches/{branch_id}/functions/{slug}': functions,
  'PATCH /projects/{project_id}/branches/{branch_id}/functions/{slug}': functions,
  'DELETE /projects/{project_id}/branches/{branch_id}/functions/{slug}': functions,
  'POST /projects/{project_id}/branches/{branch_id}/functions/{slug}/deployments': functions,
};

/** By method and path. */
export const PUBLIC_OPERATIONS: Readonly<Record<string, PublicOperation>> = {
  ...account,
  ...organizations,
  ...projects,
  ...branches,
  ...snapshots,
  ...endpoints,
  ...rolesAndDatabases,
  ...dataApiAndAuth,
  ...platform,
};
