/** Memory that many share. */
export interface ByteBudget {
  /** False, and nothing is taken, when so many bytes are not left. */
  take(bytes: number): boolean;
  give(bytes: number): void;
}

export function byteBudget(total_bytes: number): ByteBudget {
  let left_bytes = total_bytes;
  return {
    take(bytes) {
      if (bytes > left_bytes) return false;
      left_bytes -= bytes;
      return true;
    },
    give(bytes) {
      left_bytes += bytes;
    },
  };
}
