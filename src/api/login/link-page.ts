import { createHash } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import { LIMITS } from '../../domain/limits.ts';

const SCRIPT = `
const token = location.hash.slice(1);
// It is in no history and on no screen from here on.
history.replaceState(null, '', location.pathname);
const form = document.querySelector('form');
const told = document.querySelector('output');
const say = (text) => { told.textContent = text; };
const show = (...names) => {
  for (const part of document.querySelectorAll('[data-for]')) {
    part.hidden = !names.includes(part.dataset.for);
    for (const input of part.querySelectorAll('input')) input.disabled = part.hidden;
  }
};
const ask = async (path, body) => {
  const answer = await fetch('/api/auth' + path, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body),
  });
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.message);
  return content;
};
let link;
ask('/link', { token }).then((found) => {
  link = found;
  form.email.value = link.email;
  form.hidden = false;
  say(link.organization ? 'You are invited to ' + link.organization + '.' : '');
  if (!link.organization) show('new');
  else if (link.has_account) show();
  else show('new', 'name');
}, ({ message }) => say(message));
const logIn = async () => {
  if (!form.code.disabled) return ask('/two-factor/verify-totp', { code: form.code.value });
  const { twoFactorRedirect } = await ask('/sign-in/email', { email: link.email, password: form.password.value });
  if (!twoFactorRedirect) return;
  show('code');
  throw new Error('Now the code of your authenticator.');
};
const use = async () => {
  const joins = link.organization && link.has_account;
  const password = form.password.value;
  if (joins) await logIn();
  else if (password !== form.again.value) throw new Error('The two passwords differ.');
  const name = form.person.disabled ? '' : form.person.value;
  await ask('/use-link', joins ? { token } : { token, password, ...(name && { name }) });
  form.hidden = true;
  say(joins ? 'You are a member of ' + link.organization + ' now.' : 'The password is set. Log in with it.');
};
form.addEventListener('submit', (event) => {
  event.preventDefault();
  use().catch(({ message }) => say(message));
});
`;

const NEW_PASSWORD = `minlength="${LIMITS.password_characters_min}" autocomplete="new-password" required`;

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Coppice: log in</title>
</head>
<body>
<main>
<h1>Coppice</h1>
<form hidden>
<p><label>E-mail address <input name="email" type="email" autocomplete="username" readonly></label></p>
<p data-for="name" hidden><label>Name <input name="person" autocomplete="name" maxlength="${LIMITS.short_name_characters}"></label></p>
<p><label>Password <input name="password" type="password" required></label></p>
<p data-for="new" hidden><label>The same password again <input name="again" type="password" ${NEW_PASSWORD}></label></p>
<p data-for="code" hidden><label>Code <input name="code" inputmode="numeric" autocomplete="one-time-code" pattern="[0-9]{6}" required></label></p>
<p><button>Go on</button></p>
</form>
<p><output role="status"></output></p>
<noscript><p>This page needs JavaScript.</p></noscript>
</main>
<script type="module">${SCRIPT}</script>
</body>
</html>
`;

const HEADERS = {
  'content-security-policy': [
    "default-src 'none'",
    `script-src 'sha256-${createHash('sha256').update(SCRIPT).digest('base64')}'`,
    "connect-src 'self'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ].join('; '),
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
};

/** The page that one-time links lead to. Their secret is behind the #, where only its script sees it. */
export function addLinkPage(app: FastifyInstance): void {
  app.get('/login/link', { schema: { hide: true } }, async (_request, reply) =>
    reply.headers(HEADERS).type('text/html; charset=utf-8').send(PAGE),
  );
}
