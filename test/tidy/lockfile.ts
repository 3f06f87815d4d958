/** The parts of package-lock.json that are looked at. */
export interface Lockfile {
  readonly packages: Readonly<Record<string, LockedPackage>>;
}

interface LockedPackage {
  readonly version?: string;
  readonly resolved?: string;
  readonly link?: boolean;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** Where Node would find the package that `from` names, going up; undefined when nowhere. */
function find(packages: Lockfile['packages'], from: string, name: string): string | undefined {
  for (let base = from; ; ) {
    const candidate = `${base === '' ? '' : `${base}/`}node_modules/${name}`;
    if (packages[candidate]) return candidate;
    if (base === '') return undefined;
    const parent = base.lastIndexOf('node_modules/');
    base = parent <= 0 ? '' : base.slice(0, parent - 1);
  }
}

/**
 * Addresses that the lockfile should not carry, and optional packages that it lacks. `npm ci` refuses a lockfile without
 * an entry for every platform, so a package whose platforms cannot all be fetched would break everybody's install.
 */
export function lockfileProblems({ packages }: Lockfile): string[] {
  return Object.entries(packages).flatMap(([path, { resolved, link, optionalDependencies = {} }]) => {
    const problems = resolved !== undefined && !link ? [`${path} carries the address ${resolved}`] : [];
    for (const name of Object.keys(optionalDependencies)) {
      if (!find(packages, path, name)) problems.push(`${path || 'package.json'} lacks its optional package ${name}`);
    }
    return problems;
  });
}
