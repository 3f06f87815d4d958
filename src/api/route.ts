import type { IncomingHttpHeaders } from 'node:http';
import type { Static, TSchema } from 'typebox';
import type { AccessibleProject } from '../actions/access.ts';
import type { Caller } from '../actions/caller.ts';
import type { ActionContext } from '../actions/context.ts';
import type { OperationId } from '../domain/ids.ts';
import type { OperationRow, OrganizationRow } from '../store/schema.ts';
import type { EventStreams } from './event-streams.ts';
import type { PERMISSIONS, PermissionName } from './permissions.ts';

export interface RouteSchema {
  readonly params?: TSchema;
  readonly querystring?: TSchema;
  readonly body?: TSchema;
  /** By status. The success answers only; errors have one shape. 204 has no body: `Type.Null()`. */
  readonly response: Readonly<Record<number, TSchema>>;
}

type Parsed<S> = S extends TSchema ? Static<S> : undefined;
type ScopeOf<P extends PermissionName> = (typeof PERMISSIONS)[P]['scope'];

/** What a handler gets. Everything is validated, and the scope is authorised. */
export interface RouteInput<S extends RouteSchema, P extends PermissionName, F = undefined> {
  readonly context: ActionContext;
  readonly caller: Caller;
  /** The project in the path, for permissions of that scope. */
  readonly project: ScopeOf<P> extends 'project' ? AccessibleProject : undefined;
  /** The organisation in the path, for permissions of that scope. */
  readonly organization: ScopeOf<P> extends 'organization' ? OrganizationRow : undefined;
  readonly params: Parsed<S['params']>;
  readonly query: Parsed<S['querystring']>;
  readonly body: Parsed<S['body']>;
  readonly headers: IncomingHttpHeaders;
  /** Who asks, as it is by now. Throws `unauthenticated` once that is nobody. */
  readonly reauthenticate: () => Promise<Caller>;
  /** Answers that never end. */
  readonly streams: EventStreams;
  /** What `prefetch` of the route has begun. */
  readonly prefetched: Promise<F>;
  /** Waits for operations: until all have ended, for so many seconds, or until the client leaves or the server stops. */
  readonly untilEnded: (ids: readonly OperationId[], seconds: number) => Promise<OperationRow[]>;
}

/** A status of the route's `response` and the body that its schema describes. */
export type RouteReply<S extends RouteSchema> = {
  [Status in keyof S['response'] & number]: {
    readonly status: Status;
    readonly body: S['response'][Status] extends TSchema ? Static<S['response'][Status]> : never;
    readonly headers?: Readonly<Record<string, string>>;
  };
}[keyof S['response'] & number];

export interface RouteDefinition<S extends RouteSchema, P extends PermissionName, F = undefined> {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE';
  /** Below /api/v2, with `:name` parameters: `/projects/:project_id/operations`. */
  readonly path: string;
  readonly permission: P;
  /** One line for the OpenAPI document. */
  readonly summary: string;
  readonly schema: S;
  /**
   * Begins to read while it is found out who asks, so that a read that clients poll with waits once. The path's texts are
   * not checked yet, nor is the caller: `handle` shows nothing of it that is not of the project it was given.
   */
  readonly prefetch?: (context: ActionContext, params: Readonly<Record<string, string>>) => Promise<F>;
  readonly handle: (input: RouteInput<S, P, F>) => Promise<RouteReply<S>>;
  /** The same as lines of JSON without a bound, for who accepts `application/x-ndjson`; read as fast as the client takes them. */
  readonly lines?: (input: RouteInput<S, P, F>) => AsyncIterable<string>;
}

/** A route as the server sees it. */
export type Route = RouteDefinition<RouteSchema, PermissionName, unknown>;

/** Declares a route; the types of its handler follow from its schemas and its permission. */
export function route<const S extends RouteSchema, P extends PermissionName, F = undefined>(
  definition: RouteDefinition<S, P, F>,
): Route {
  return definition as unknown as Route;
}

/** What a handler returns; keeps the status a literal, so that the body is checked against that status's schema. */
export const reply = <const Status extends number, Body>(status: Status, body: Body) => ({ status, body });
