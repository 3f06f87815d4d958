import { createReadStream } from 'node:fs';
import { createRequire } from 'node:module';
import type { FastifyInstance, FastifyReply } from 'fastify';

const CSS = 'text/css; charset=utf-8';
const SCRIPT = 'text/javascript; charset=utf-8';

/** Scripts, styles and pictures are ours, nothing else is loaded, and nobody shows the page within another. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

// Addresses are relative to /api/docs, so that it works behind a proxy that has it elsewhere.
const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Coppice API</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="icon" type="image/png" href="docs/favicon-32x32.png">
</head>
<body>
<div id="swagger-ui"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
`;

/** Keys that are typed in are forgotten with the page, and nothing is sent anywhere to be validated. */
const START = `SwaggerUIBundle({
  url: 'v2/openapi.json',
  dom_id: '#swagger-ui',
  deepLinking: true,
  docExpansion: 'none',
  defaultModelsExpandDepth: -1,
  validatorUrl: null,
});
`;

/** Of the package that brings Swagger UI; they are read when somebody asks, since few people do. */
const FILES: Readonly<Record<string, string>> = {
  'swagger-ui.css': CSS,
  'swagger-ui-bundle.js': SCRIPT,
  'favicon-32x32.png': 'image/png',
};

const { resolve } = createRequire(import.meta.url);

/** The API as a page to read and to try: /api/docs. Needs no key, as the document itself does not. */
export function addDocsRoutes(app: FastifyInstance): void {
  const headers = (reply: FastifyReply, type: string, cache = 'no-cache') =>
    reply
      .header('content-security-policy', CONTENT_SECURITY_POLICY)
      .header('x-content-type-options', 'nosniff')
      .header('referrer-policy', 'no-referrer')
      .header('cache-control', cache)
      .type(type);
  const hidden = { schema: { hide: true } };
  app.get('/api/docs', hidden, async (_request, reply) => headers(reply, 'text/html; charset=utf-8').send(PAGE));
  app.get('/api/docs/', hidden, async (_request, reply) => reply.redirect('../docs'));
  app.get('/api/docs/start.js', hidden, async (_request, reply) => headers(reply, SCRIPT).send(START));
  for (const [name, type] of Object.entries(FILES)) {
    app.get(`/api/docs/${name}`, hidden, async (_request, reply) =>
      headers(reply, type, 'public, max-age=3600').send(
        createReadStream(resolve(`@fastify/swagger-ui/static/${name}`)),
      ),
    );
  }
}
