/**
 * The text of `archive_command` that puts a finished segment into a directory. A hard link where that works; between
 * subvolumes, and where links are not allowed, a copy that shares blocks, which is there only when it is whole. It may
 * be run again for a segment that is there already, since Postgres does so after a crash.
 */
export function archiveCommand(incoming: string): string {
  const target = `${quote(`${incoming}/`)}%f`;
  const part = `${quote(`${incoming}/.`)}%f.part`;
  const copy =
    process.platform === 'linux' ? `cp --reflink=auto %p ${part} && sync ${part}` : `cp -c %p ${part} || cp %p ${part}`;
  return `test ${target} -ef %p || ln %p ${target} 2>/dev/null || { { ${copy}; } && mv -f ${part} ${target}; }`;
}

/** For the shell, and for Postgres, which replaces what follows a per cent sign. */
const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`).replaceAll('%', '%%')}'`;
