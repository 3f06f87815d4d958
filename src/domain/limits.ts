/**
 * Every bound of the product in one place. Units are last in the name. Values that a person may change
 * are in `settings.ts`; these are the ones that hold everywhere.
 */
export const LIMITS = {
  /** Public API: names of projects and branches. */
  name_characters: 256,
  /** Public API: names of API keys and endpoints. */
  short_name_characters: 64,
  /** Postgres identifiers (NAMEDATALEN - 1). */
  identifier_bytes: 63,
  roles_per_branch: 500,
  databases_per_branch: 500,
  /** Issuers of tokens of one project: all of them may be asked for the keys of one token. */
  jwks_per_project: 10,
  outbound_url_characters: 2048,
  /** Public API: roles that the tokens of one issuer are for. */
  roles_per_jwks: 10,
  annotations_per_branch: 50,
  allowed_ips_per_project: 1000,
  members_page_max: 500,
  /** People whom one call invites, and invitations of an organisation that nobody has accepted. */
  invitations_per_call: 100,
  open_invitations_per_organization: 1000,
  email_characters: 256,
  /** Of passwords that people log in with; those that wait to be hashed, and attempts from one network and at one address. */
  password_characters_min: 12,
  password_characters_max: 200,
  passwords_waiting: 30,
  sign_ins_per_network_burst: 60,
  sign_ins_per_network_per_second: 1,
  sign_ins_per_person_burst: 10,
  sign_ins_per_person_per_second: 1 / 30,
  /** Mails of one organisation: whoever invites chooses who gets them. */
  mails_per_organization_burst: 100,
  mails_per_organization_per_second: 1 / 60,
  /** Whoever invites waits so long for the mail server. */
  mail_wait_ms: 15_000,
  mails_at_once: 5,
  /** How long a login lasts that nobody uses, and how often using it is written down. */
  session_seconds: 7 * 86_400,
  session_renewal_seconds: 86_400,
  /** How long a link can be used that sets a password, and one that invites. */
  password_link_seconds: 86_400,
  invitation_link_seconds: 7 * 86_400,
  /** Wrong codes of a second factor, and for how long all are refused then. */
  wrong_codes: 10,
  wrong_codes_lock_seconds: 900,
  transfer_requests_per_project: 100,
  transfer_request_seconds_default: 86_400,
  transfer_request_seconds_max: 30 * 86_400,
  /** Public API: what one call gives to another organisation. */
  projects_per_transfer: 400,
  /** People outside of its organisation whom a project is shared with. */
  permissions_per_project: 1000,
  /** Computes that one call may make with a branch. */
  endpoints_per_call: 10,
  branch_expiry_seconds_max: 30 * 86_400,
  /** What has expired is looked for every few seconds. */
  branch_lease_seconds_min: 10,
  masking_rules_per_branch: 1000,
  masking_function_characters: 1000,
  masking_value_characters: 10_000,
  snapshots_per_project: 1000,
  /** Points of the past that clients of one project are connected to at the same time. */
  ephemeral_branches_per_project: 10,
  backup_schedule_items: 20,
  /** Public API: the shortest time for which a scheduled snapshot is kept. */
  snapshot_retention_seconds_min: 3600,
  snapshot_retention_seconds_max: 10 * 366 * 86_400,
  request_body_bytes: 1024 * 1024,
  /** From the first byte of an HTTP request to its last. */
  request_timeout_ms: 30_000,
  /** One decoded path segment; a role's name is at most 63 bytes, each of which may be three characters. */
  path_parameter_characters: 256,
  projects_page_default: 10,
  projects_page_max: 400,
  operations_page_max: 1000,
  /** A request waits for operations this long at most: clients give up after a minute. */
  wait_seconds_max: 60,
  /** Requests of one process that wait for operations. */
  waiting_requests: 1000,
  /** How long events are kept, and how many come in a page. */
  events_kept_ms: 7 * 86_400_000,
  events_page_default: 100,
  events_page_max: 1000,
  /** Streams of events of one process, and of one API key among them. */
  event_streams: 1000,
  event_streams_per_key: 20,
  /** What may wait for a reader that is slow, and for how long nothing of it may be taken. */
  event_stream_bytes: 1024 * 1024,
  event_stall_ms: 30_000,
  /** So often a stream shows that it lives, and whether its reader may still see it is looked up. */
  event_heartbeat_ms: 15_000,
  /** Webhooks of an organisation, or of a project, and how many kinds of events one may name. */
  webhooks_per_owner: 20,
  webhook_event_types: 50,
  /** Deliveries that are under way at once, and those that may wait for one webhook: it gets no others meanwhile. */
  webhook_deliveries_at_once: 50,
  webhook_deliveries_waiting: 10_000,
  webhook_deliveries_page_max: 400,
  /** A receiver has so long to answer, and is tried again for so long. */
  webhook_timeout_ms: 10_000,
  webhook_retries_ms: 86_400_000,
  webhook_error_characters: 500,
  /** After a change of its secret what is sent is signed with the former one, too, for so long. */
  webhook_former_secret_ms: 86_400_000,
  /** Rows of removed snapshots of timelines, by which somebody may still see what was there. */
  purged_snapshots_kept_ms: 7 * 86_400_000,
  /** How long a repeated POST is answered like the first one, and how many keys of such one caller can have in use. */
  idempotency_keys_kept_ms: 86_400_000,
  idempotency_keys_per_api_key: 10_000,
  branches_page_max: 10_000,
  history_retention_seconds_default: 86_400,
  history_retention_seconds_max: 2_592_000,
  suspend_timeout_seconds_default: 300,
  suspend_timeout_seconds_max: 604_800,
  /** Reading a schema, the wake of its compute included: clients wait a minute for an answer. */
  schema_timeout_ms: 55_000,
  /** The longest text of a schema. */
  schema_bytes: 32 * 1024 * 1024,
  /** Readings of schemas of one project that wait for each other; the next one is refused with 423. */
  schema_readings_waiting: 100,
  /** Schemas that are read at the same time, each on a thread. */
  schema_readings: 2,
  /** Unfinished calls of one project; the next one is refused with 423. */
  unfinished_calls_per_project: 200,
  /** Startup packet, from the first byte to authentication (the public proxy uses the same bounds). */
  startup_packet_bytes: 10_000,
  password_message_bytes: 512,
  handshake_timeout_ms: 15_000,
  authentication_timeout_ms: 15_000,
  /** A connection waits this long for its compute to wake. */
  wake_timeout_ms: 60_000,
  /** One whose branch comes back from the archive is told so after the first time, and waits for the second. */
  archive_notice_ms: 1_000,
  archive_timeout_ms: 3_600_000,
  /** Attempts of one connection to reach its compute, each after a wake or a pause. */
  connect_attempts: 30,
  compute_login_timeout_ms: 15_000,
  /** What a compute may say between its start-up packet and ReadyForQuery. */
  compute_login_bytes: 1024 * 1024,
  /** Connections that have not logged in yet, over the whole gateway; the next one is refused. */
  unauthenticated_connections: 5000,
  sessions_per_endpoint: 10_000,
  /** Connections that are opened, by the address they come from and the endpoint they are let in to. */
  connections_per_address_burst: 20_000,
  connections_per_address_per_second: 2_000,
  connections_per_endpoint_burst: 20_000,
  connections_per_endpoint_per_second: 1_000,
  /** Wrong passwords: of an address, at an endpoint, and of an address at an endpoint. */
  failed_logins_per_address_burst: 1_000,
  failed_logins_per_address_per_second: 50,
  failed_logins_per_endpoint_burst: 1_000,
  failed_logins_per_endpoint_per_second: 50,
  failed_logins_per_pair_burst: 100,
  failed_logins_per_pair_per_second: 10,
  /** Addresses and endpoints that are kept in mind for each of these. */
  guarded_names: 10_000,
  /** Who is refused by them gets so long to close its side. */
  rate_limit_linger_timeout_ms: 100,
  /** Server connections of an endpoint whose size is not known. */
  pool_size_default: 100,
  /** Clients of an endpoint that wait for a server connection; the next one is refused. */
  pool_waiting: 10_000,
  pool_wait_notice_ms: 5_000,
  pool_wait_timeout_ms: 120_000,
  /** A server connection that nobody borrowed for so long is closed. */
  pool_server_idle_ms: 120_000,
  /** Server connections of an endpoint that are opened at the same time. */
  pool_openings: 16,
  /** Where the server has no room for another one, it is asked again after so long, if somebody still waits. */
  pool_full_retry_ms: 5_000,
  /** Cleaning a session, or setting it up for a client. */
  pool_own_query_timeout_ms: 15_000,
  /** Statements that are kept prepared on one server connection. */
  pool_statements_per_server: 1000,
  pool_statements_per_client: 10_000,
  /** The longest statement that is prepared by name, and all that one client may have prepared. */
  pool_statement_bytes: 1024 * 1024,
  pool_statement_bytes_per_client: 16 * 1024 * 1024,
  /** The texts of all prepared statements of a pool. */
  pool_statement_bytes_per_pool: 128 * 1024 * 1024,
  /** The longest text that is judged by its words. */
  pool_judged_bytes: 8 * 1024,
  /** The names in one message. */
  pool_name_bytes: 4 * 1024,
  /** The longest message of a server that the pool has to read itself. */
  pool_read_bytes: 1024 * 1024,
  /** Whether a database has code that could leave something in a session is looked up again after so long. */
  pool_code_check_interval_ms: 10_000,
  /** The slowest verifier that a cleartext password is checked against; Postgres's default is 4096. */
  scram_iterations: 1_000_000,
  /** One message of a WebSocket. */
  websocket_message_bytes: 64 * 1024 * 1024,
  /** What all WebSockets together hold of large messages that are not complete, or not passed on. */
  websocket_held_bytes: 256 * 1024 * 1024,
  /** SQL over HTTP: the body of a request, and that of its answer. */
  sql_request_bytes: 64 * 1024 * 1024,
  sql_response_bytes: 64 * 1024 * 1024,
  /** What all requests and answers together may hold. */
  sql_held_bytes: 512 * 1024 * 1024,
  /** Passwords that were found right, remembered for a while by what is left of their derivation. */
  verified_passwords: 1000,
  verified_password_ms: 60_000,
  /** Tokens (JWT): key sets that are kept, how large each may be, and how long fetching one may take. */
  token_key_sets: 1000,
  token_keys_bytes: 64 * 1024,
  token_keys_timeout_ms: 5_000,
  /** A key set that is in use is renewed after so long, and without that used no longer than this, */
  token_keys_age_ms: 300_000,
  token_keys_age_max_ms: 3_600_000,
  /** fetched again for a key that is not in it after so long, */
  token_keys_cooldown_ms: 30_000,
  /** and again after a failure. */
  token_keys_retry_ms: 5_000,
  token_clock_skew_seconds: 30,
  /** Endpoints that have metrics of their own, each about a hundred lines to write, and how long after their last client. */
  measured_endpoints: 250,
  measured_idle_ms: 900_000,
  /** Entries in a list of connections. */
  connections_listed: 1_000,
  cancel_keys: 200_000,
  cancel_timeout_ms: 5_000,
  /** A gateway that stops lets transactions go on for so long, */
  drain_timeout_ms: 30_000,
  /** and looks for sessions that have ended theirs this often. */
  drain_interval_ms: 100,
  /** Processes that serve the Postgres port, and what they may have asked each other without an answer. */
  gateway_workers: 16,
  gateway_questions: 1_000,
  /** A client that has closed its side, with nothing coming from the server for so long, has left. */
  half_close_timeout_ms: 5_000,
  /** A client gets so long to take what it was sent last, */
  flush_timeout_ms: 60_000,
  /** and then so long to close its side. */
  linger_timeout_ms: 2_000,
  certificates_cached: 1000,
  /** Keys made for names that clients ask for; beyond, they are shown the default certificate. */
  certificates_minted_per_second: 20,
  certificates_minted_burst: 200,
  certificate_check_interval_ms: 60_000,
  compute_log_bytes: 10 * 1024 * 1024,
  compute_log_files: 3,
  /** Longest path of a Unix socket, without the terminating zero. */
  socket_path_bytes: 107,
} as const;
