import { setTimeout as delay } from 'node:timers/promises';
import { CoppiceError } from '../domain/errors.ts';
import { LIMITS } from '../domain/limits.ts';
import { tokenBuckets } from '../domain/token-buckets.ts';
import { acceptInvitations, countOpenInvitations, findInvited, upsertInvitation } from '../store/invitations.ts';
import { replaceLink } from '../store/login-links.ts';
import type { InvitationRow, OrganizationRow } from '../store/schema.ts';
import { lockPeople } from '../store/users.ts';
import type { MembershipRole, PersonalCaller } from './caller.ts';
import type { ActionContext } from './context.ts';
import { linkUrl, newLinkToken } from './reset-login.ts';
import { hashOfLink } from './use-login-link.ts';

/** An invitation, and how whom it is for learns of it. */
export interface SentInvitation {
  readonly row: InvitationRow;
  /** Where mails are sent: whether this one was taken by the mail server. */
  readonly mail_sent?: boolean;
  /** Where none are: what to give to the person. */
  readonly link?: string;
}

type Made = { readonly row: InvitationRow; readonly token: string | undefined };

/**
 * Invites people by address. Whose address somebody vouches for and has an account is a member at once; who gets one later is a
 * member from then on. Whoever is no member yet gets a link, by mail where there is a mail server, that makes the account. One
 * who is a member already is `member_exists`, and then nobody is invited.
 */
export async function invitePeople(
  context: Pick<ActionContext, 'store' | 'installation' | 'mail'>,
  { user }: PersonalCaller,
  organization: OrganizationRow,
  people: readonly { email: string; role: MembershipRole }[],
): Promise<SentInvitation[]> {
  const { store, mail } = context;
  const expires_at = new Date(Date.now() + LIMITS.invitation_link_seconds * 1000);
  const made = await store.transaction().execute(async (trx) => {
    await lockPeople(trx);
    const invitations: Made[] = [];
    for (const { email, role } of people) {
      const invited = await findInvited(trx, organization.id, email);
      if (invited?.is_member) throw new CoppiceError('member_exists', { email });
      const row = await upsertInvitation(trx, { organization_id: organization.id, email, role, invited_by: user.id });
      const joined = invited?.email_verified === true;
      if (joined) await acceptInvitations(trx, invited);
      const token = joined ? undefined : newLinkToken();
      if (token !== undefined) {
        const link = { token_hash: hashOfLink(token), expires_at, mailed: mail !== undefined };
        await replaceLink(trx, { invitation_id: row.id }, link);
      }
      invitations.push({ row, token });
    }
    const limit = LIMITS.open_invitations_per_organization;
    if ((await countOpenInvitations(trx, organization.id)) > limit)
      throw new CoppiceError('invitations_limit', { limit });
    return invitations;
  });
  const answered = new AbortController();
  const late = delay(LIMITS.mail_wait_ms, false, { signal: answered.signal, ref: false }).catch(() => false);
  try {
    return await Promise.all(made.map((invitation) => tell(context, organization, invitation, late)));
  } finally {
    answered.abort();
  }
}

/** In each process. Nobody is to fill others' mailboxes by inviting them again and again. */
const mailsOf = tokenBuckets(
  { burst: LIMITS.mails_per_organization_burst, per_second: LIMITS.mails_per_organization_per_second },
  LIMITS.guarded_names,
);

/** A mail that is not taken is no reason to undo the invitation: inviting again sends another. */
async function tell(
  { installation, mail }: Pick<ActionContext, 'installation' | 'mail'>,
  { id, name }: OrganizationRow,
  { row, token }: Made,
  late: Promise<boolean>,
): Promise<SentInvitation> {
  if (token === undefined) return { row };
  const link = linkUrl(installation.public_url, token);
  if (!mail) return { row, link };
  if (!mailsOf.take(id)) return { row, mail_sent: false };
  const letter = {
    to: row.email,
    subject: `Invitation to ${name} on Coppice`,
    text: `You are invited to the organization ${name} on ${installation.public_url}.\n\nThis link lets you in, once, within ${LIMITS.invitation_link_seconds / 86_400} days:\n\n${link}\n\nIf you do not expect this, leave it be.\n`,
  };
  const taken = mail(letter).then(
    () => true,
    () => false,
  );
  return { row, mail_sent: await Promise.race([taken, late]) };
}
