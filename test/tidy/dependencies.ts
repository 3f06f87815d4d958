/** The parts of package.json that are looked at. */
export interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** Dependencies that are not pinned, or that no row of the decision's table explains; rows that explain nothing. */
export function dependencyProblems(manifest: Manifest, decision: string): string[] {
  const all = { ...manifest.dependencies, ...manifest.devDependencies, ...manifest.optionalDependencies };
  const rows = [...decision.matchAll(/^\| *`([^`]+)`((?: *, *`[^`]+`)*) *\|(.*)\|$/gm)];
  const explained = new Map(
    rows.flatMap(([, first = '', more = '', rest = '']) => {
      const cells = rest.split('|').map((cell) => cell.trim());
      return [first, ...[...more.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)].map(
        (name) => [name, cells] as const,
      );
    }),
  );
  const problems = Object.entries(all)
    .filter(([, range]) => !/^(npm:[\w@/.-]+@)?\d+\.\d+\.\d+(-[\w.]+)?$/.test(range))
    .map(([name, range]) => `${name} is not pinned: "${range}"`);
  for (const name of Object.keys(all)) {
    const cells = explained.get(name);
    if (cells === undefined) problems.push(`${name} has no row that says what it is for`);
    else if (cells.length !== 3 || cells.includes(''))
      problems.push(`${name}: its row needs what for, why this one, licence`);
  }
  for (const name of explained.keys()) if (!(name in all)) problems.push(`${name} has a row but is not a dependency`);
  return problems;
}
