/**
 * Why no backup can be made, read or removed now, for the person at the terminal: nobody takes the snapshots, somebody else
 * writes to the place, or what lies there is damaged or of a newer version.
 */
export class BackupError extends Error {
  override name = 'BackupError';
}
