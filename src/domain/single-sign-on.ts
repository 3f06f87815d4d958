/** Where people log in instead of here (OpenID Connect), and whom of them we take. */
export interface SingleSignOn {
  /** As it calls itself; its configuration is below `/.well-known`. */
  readonly issuer: string;
  readonly client_id: string;
  readonly client_secret: string;
  /** Empty: those who have an account or an invitation. Else these domains alone, and everybody there. In lower case. */
  readonly email_domains: readonly string[];
}

/** Whether the issuer may say that an address is somebody's. */
export function isOwnDomain({ email_domains }: SingleSignOn, email: string): boolean {
  return email_domains.length === 0 || email_domains.includes(email.slice(email.lastIndexOf('@') + 1).toLowerCase());
}
