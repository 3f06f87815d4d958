/** As root, every project runs under a user id of its own, counted from here; the ids need no names. */
const PROJECT_UID_BASE = 900_000;

const runsAsRoot = process.getuid?.() === 0;

/** First uid for projects; undefined where everything runs as one user. */
export const projectUidBase: number | undefined = runsAsRoot ? PROJECT_UID_BASE : undefined;

/** Who runs our own database. */
export const storeOwner = runsAsRoot ? { uid: PROJECT_UID_BASE - 1, gid: PROJECT_UID_BASE - 1 } : undefined;
