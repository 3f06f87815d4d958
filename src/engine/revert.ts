/** What to undo when a step fails half-way: registered right after each do, run in reverse, disarmed on success. */
export class Revert implements AsyncDisposable {
  readonly #undos: (() => Promise<void>)[] = [];
  readonly #onError: (error: unknown) => void;

  /** @param onError an undo that fails is reported; the rest still run */
  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  add(undo: () => Promise<void>): void {
    this.#undos.push(undo);
  }

  /** Everything worked: nothing is undone. */
  disarm(): void {
    this.#undos.length = 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const undo of this.#undos.splice(0).reverse()) await undo().catch(this.#onError);
  }
}
