/**
 * SASLprep (RFC 4013) as far as it changes a password. Text that it forbids is used as it is, as Postgres does, so a
 * verifier is matched by the prepared or by the plain form.
 */

/** The forms of a password to try, the most likely first; one for plain ASCII. */
export function passwordForms(password: string): readonly string[] {
  if (/^[\x20-\x7e]*$/.test(password)) return [password];
  const prepared = password
    .replace(/[\u00a0\u1680\u2000-\u200b\u202f\u205f\u3000]/g, ' ')
    .replace(/\u034f|[\u180b-\u180d]|[\ufe00-\ufe0f]|\u00ad|\u1806|\u200c|\u200d|\u2060|\ufeff/g, '')
    .normalize('NFKC');
  return prepared === password || prepared === '' ? [password] : [prepared, password];
}
