import { once } from 'node:events';
import { request as requestPlain } from 'node:http';
import { request as requestTls } from 'node:https';

export interface LoginAnswer {
  readonly status: number;
  /** As they came. */
  readonly cookies: readonly string[];
  readonly body: string;
}

/** POST below /api/auth of a Coppice that runs, as a page of its own host does; `tls`: over TLS, with whatever certificate. */
export async function postLogin(
  { api_port }: { readonly api_port: number },
  path: string,
  body: unknown,
  { tls = false }: { readonly tls?: boolean } = {},
): Promise<LoginAnswer> {
  const origin = `${tls ? 'https' : 'http'}://localhost:${api_port}`;
  const options = {
    method: 'POST',
    agent: false as const,
    rejectUnauthorized: false,
    headers: { 'content-type': 'application/json', origin },
  };
  const sent = (tls ? requestTls : requestPlain)(`${origin}/api/auth${path}`, options);
  sent.end(JSON.stringify(body));
  const [answer] = await once(sent, 'response');
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk);
  return {
    status: answer.statusCode,
    cookies: answer.headers['set-cookie'] ?? [],
    body: Buffer.concat(chunks).toString(),
  };
}

/** What a link to log in is opened by. */
export const linkToken = (text: string): string => /\/login\/link#([\w-]{43})/.exec(text)![1]!;
