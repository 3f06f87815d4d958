import assert from 'node:assert/strict';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { PUBLIC_OPERATIONS } from '../../src/api/public-operations.ts';
import { ROUTES } from '../../src/api/routes.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { cannotRender, renderPage } from '../support/chromium.ts';

const shapeOf = (name: string) => name.replace(/\{\w+\}|:\w+/g, '{}');

interface Described {
  readonly summary?: string;
  readonly operationId?: string;
  readonly tags?: readonly string[];
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly schema?: object }[];
  readonly requestBody?: { readonly required: boolean };
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content?: object }>>;
}

describe('the API as it describes itself', () => {
  let api: TestApi;
  let url: string;
  // biome-ignore lint/suspicious/noExplicitAny: it is looked through.
  let document: any;
  before(async () => {
    api = await startTestApi();
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    url = `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}`;
    document = await (await fetch(`${url}/api/v2/openapi.json`)).json();
  });
  after(() => api?.close());

  const describedAs = ({ method, path }: { method: string; path: string }): Described =>
    document.paths[`/api/v2${path.replace(/:(\w+)/g, '{$1}')}`]?.[method.toLowerCase()];

  it('has every route, with all that a client of it has to know', () => {
    for (const route of ROUTES) {
      const name = `${route.method} ${route.path}`;
      const described = describedAs(route);
      assert.ok(described, `${name} is not described`);
      assert.equal(described.summary, route.summary, name);
      assert.equal(described.tags?.length, 1, name);
      const inPath = (described.parameters ?? []).filter((parameter) => parameter.in === 'path');
      assert.deepEqual(
        inPath.map((parameter) => parameter.name).sort(),
        [...route.path.matchAll(/:(\w+)/g)].map((match) => match[1]!).sort(),
        name,
      );
      for (const parameter of described.parameters ?? []) assert.ok(parameter.schema, `${name}: ${parameter.name}`);
      assert.equal('requestBody' in described, route.schema.body !== undefined, name);
      assert.ok(described.responses['401'] && described.responses['503'], name);
      for (const [status, { description, content }] of Object.entries(described.responses)) {
        assert.notEqual(description, 'Default Response', `${name}: ${status}`);
        assert.equal(content === undefined, status === '204', `${name}: ${status}`);
      }
    }
  });

  it('tells which bodies may be left out', () => {
    const required = (method: string, path: string) => describedAs({ method, path }).requestBody!.required;
    assert.equal(required('POST', '/projects/:project_id/branches'), false);
    assert.equal(required('PATCH', '/projects/:project_id/branches/:branch_id'), true);
  });

  it('has nothing else, names each operation once, and refers to nothing that it does not hold', () => {
    const operations: Described[] = Object.values(document.paths).flatMap((item) => Object.values(item as object));
    assert.equal(operations.length, ROUTES.length);
    assert.equal(new Set(operations.map(({ operationId }) => operationId)).size, ROUTES.length);
    const known = document.tags.map(({ name }: { name: string }) => name);
    for (const { tags } of operations) assert.ok(known.includes(tags![0]), tags![0]);
    for (const [, reference] of JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)) {
      const found = reference!.split('/').reduce((place, part) => place?.[part], document);
      assert.ok(found, reference);
    }
  });

  it('keeps apart what is not on this server, and says no success of it', () => {
    const rows = new Map(Object.entries(PUBLIC_OPERATIONS).map(([name, row]) => [shapeOf(name), row]));
    for (const route of ROUTES) {
      const row = rows.get(shapeOf(`${route.method} ${route.path}`));
      const refused = row !== undefined && 'feature' in row;
      const { tags, responses } = describedAs(route);
      assert.equal(tags![0] === 'Not on this server', refused, route.path);
      assert.equal(
        Object.keys(responses).some((status) => status.startsWith('2')),
        !refused,
        route.path,
      );
    }
  });

  it('is a page that loads nothing from elsewhere, without a key', async () => {
    const page = await fetch(`${url}/api/docs`);
    const html = await page.text();
    assert.match(page.headers.get('content-security-policy')!, /default-src 'none'; script-src 'self';/);
    assert.doesNotMatch(page.headers.get('content-security-policy')!, /unsafe|https?:|\*/);
    const places = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1]!);
    assert.equal(places.length, 4);
    for (const place of places) {
      const file = await fetch(new URL(place, page.url));
      assert.equal(file.status, 200, place);
      assert.equal(file.headers.get('x-content-type-options'), 'nosniff');
      assert.ok((await file.arrayBuffer()).byteLength > 0);
    }
    assert.equal((await fetch(`${url}/api/docs/`)).url, `${url}/api/docs`);
    assert.equal((await fetch(`${url}/api/docs/package.json`)).status, 404);
  });

  it('shows in a browser what can be called, without a complaint', {
    skip: cannotRender,
    timeout: 120_000,
  }, async () => {
    const { html, console } = await renderPage(`${url}/api/docs`);
    assert.deepEqual(console, []);
    for (const tag of document.tags) assert.ok(html.includes(`data-tag="${tag.name}"`), `${tag.name} is not shown`);
    assert.match(html, /Coppice API/);
    assert.doesNotMatch(html, /Failed to load|errors-wrapper/);
  });
});
