import type { Transporter } from 'nodemailer';
import { LIMITS } from '../../domain/limits.ts';
import { canBeMailed, type SendLetter } from '../../domain/mail.ts';

const TIMEOUT_MS = 10_000;

/**
 * Sends letters through a mail server. What speaks to it is loaded with the first letter; connections are closed when there is
 * nothing more to send.
 *
 * @param url `smtp://user:password@host:587`, which goes on in TLS where the server offers it, or `smtps://`
 */
export function openSmtp({ url, from }: { readonly url: string; readonly from: string }): SendLetter {
  let opening: Promise<Transporter> | undefined;
  const open = async (): Promise<Transporter> => {
    const { createTransport } = await import('nodemailer');
    const { protocol, hostname, port, username, password } = new URL(url);
    return createTransport({
      host: hostname.replace(/^\[|\]$/g, ''),
      port: port === '' ? undefined : Number(port),
      secure: protocol === 'smtps:',
      ...(username !== '' && { auth: { user: decodeURIComponent(username), pass: decodeURIComponent(password) } }),
      connectionTimeout: TIMEOUT_MS,
      greetingTimeout: TIMEOUT_MS,
      socketTimeout: TIMEOUT_MS,
      disableFileAccess: true,
      disableUrlAccess: true,
    });
  };
  // What waits is bounded by those who may send letters.
  const waiting: (() => void)[] = [];
  let sending = 0;
  const turn = async (): Promise<void> => {
    if (sending < LIMITS.mails_at_once) sending += 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
  };
  return async ({ to, subject, text }) => {
    if (!canBeMailed(to)) throw new Error('letters are not sent to such an address');
    opening ??= open();
    const transporter = await opening;
    await turn();
    try {
      // As objects: a text is read as a list of people, and a line's end in it as the next header.
      await transporter.sendMail({
        from: { name: 'Coppice', address: from },
        to: { name: '', address: to },
        subject: subject.replace(/[\u0000-\u001f\u007f]/g, ' '),
        text,
      });
    } finally {
      // Whoever is done hands over the place.
      const next = waiting.shift();
      if (next) next();
      else sending -= 1;
    }
  };
}
