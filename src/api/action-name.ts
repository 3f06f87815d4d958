/** How a call is named that says no more than its method. */
const VERBS: Readonly<Record<string, string>> = { POST: 'create', PATCH: 'update', PUT: 'set', DELETE: 'delete' };

const singular = (noun: string): string =>
  noun === 'jwks' ? noun : noun.replace(/ches$/, 'ch').replace(/ies$/, 'y').replace(/s$/, '');

/** `me` stands for an id. */
const isId = (part: string): boolean => part.startsWith(':') || part === 'me';

/**
 * What a route that changes something does, by its method and path: `branch.create`, `endpoint.restart`,
 * `role.reset_password`. A path that ends in the plural of a noun, or in its id, is about the noun; any other ending says
 * itself what is done.
 */
export function actionName(method: string, path: string): string {
  const parts = path.split('/').filter((part) => part !== '');
  const nouns = parts.filter((part) => !isId(part));
  const last = nouns.at(-1)!;
  if (isId(parts.at(-1)!) || last.endsWith('s')) return `${singular(last)}.${VERBS[method]}`;
  const owner = singular(nouns.at(-2) ?? 'installation');
  return method === 'POST' ? `${owner}.${last}` : `${owner}.${VERBS[method]}_${last}`;
}
