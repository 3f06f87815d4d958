import { Api, createApiClient, HttpClient } from '@neondatabase/api-client';
import { type PublicRequest, publicRequests } from './openapi-contract.ts';
import type { Json } from './schema-values.ts';

/** The public API client as its users hold it. */
export type PublicClient = Api<unknown>;

/** A method of the client that calls the API. */
export type ClientMethod = Exclude<keyof PublicClient, keyof HttpClient<unknown>>;

/** What a client made of an answer, or of a refusal. */
export interface ClientAnswer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests reach into it, and its shape is checked against the contract.
  readonly data: any;
}

type Call = (...given: unknown[]) => Promise<ClientAnswer>;

const plumbing = new Set(Object.keys(new HttpClient()));

/** Read off the class, so that none is forgotten when a new version has more. */
export const CLIENT_METHODS = Object.keys(new Api()).filter((name) => !plumbing.has(name)) as ClientMethod[];

const callOf = (client: PublicClient, method: ClientMethod) => client[method] as unknown as Call;

/** Calls a method by its name; what the server refused is an answer too. */
export async function callMethod(
  client: PublicClient,
  method: ClientMethod,
  given: readonly unknown[],
): Promise<ClientAnswer> {
  try {
    return await callOf(client, method)(...given);
  } catch (error) {
    const { response } = error as { response?: ClientAnswer };
    if (!response) throw error;
    return response;
  }
}

const REQUESTS = publicRequests().map((request) => ({
  request,
  pattern: new RegExp(`^${request.path.replace(/\{\w+\}/g, '[^/]+')}$`),
  literals: request.path.split('/').filter((part) => !part.startsWith('{')).length,
}));

/** What a method asks for; nothing is sent. */
export async function requestOf(method: ClientMethod): Promise<PublicRequest> {
  let [sent_method, sent_url] = ['', ''];
  const dry = createApiClient({
    apiKey: null,
    adapter: async (config) => {
      [sent_method, sent_url] = [config.method!.toUpperCase(), config.url!];
      return { data: {}, status: 200, statusText: '', headers: {}, config };
    },
  });
  await callOf(dry, method)(...argumentsOf(method, { path: () => 'any', query: {}, body: {} }));
  const [found] = REQUESTS.filter(
    ({ request, pattern }) => request.method === sent_method && pattern.test(sent_url),
  ).sort((a, b) => b.literals - a.literals);
  if (!found) throw new Error(`${method} asks for ${sent_method} ${sent_url}, which the public file does not have`);
  return found.request;
}

/** What a request is made of. `path` has the value of a parameter, by its name in the public file. */
export interface RequestParts {
  readonly path: (parameter: string) => string;
  readonly query: Readonly<Record<string, Json>>;
  readonly body: Json | undefined;
}

const inFile = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/**
 * What a method takes, in its order: `(projectId, branchId, data)`, or one object with the parameters of the path and the
 * query, which the compiled client calls `_a`. Read off its text, since the names are nowhere else.
 */
export function argumentsOf(method: ClientMethod, { path, query, body }: RequestParts): unknown[] {
  const text = String(callOf(createApiClient({ apiKey: null }), method));
  const parameters = /^function \(([^)]*)\)/.exec(text)![1]!.split(', ');
  const valueIn = (name: string) => path(inFile(name));
  return parameters
    .filter((name) => name !== 'params')
    .map((name) => {
      if (name === 'data') return body;
      if (name === 'query') return query;
      if (name !== '_a') return valueIn(name);
      const inPath = [...text.matchAll(/\b_a\.(\w+)/g)].map((match) => match[1]!);
      return { ...query, ...Object.fromEntries(inPath.map((parameter) => [parameter, valueIn(parameter)])) };
    });
}
