/** Why Coppice cannot start or a command cannot run: one sentence for the person at the terminal, who can act on it. */
export class StartError extends Error {
  override name = 'StartError';
}
