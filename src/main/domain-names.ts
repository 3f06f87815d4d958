import { lookup } from 'node:dns/promises';

/** Whether names below the domain lead anywhere on this machine. A name that cannot exist otherwise is asked for. */
export async function domainResolves(domain: string): Promise<boolean> {
  return lookup(`ep-does-it-resolve.${domain}`).then(
    () => true,
    () => false,
  );
}
