/** Moves bytes one way until the source ends, with about one read's worth of them on the way. */
export interface Pump {
  /** Reads on without passing anything to the sink. */
  discard(): void;
}

export interface PumpEvents {
  /** So many bytes were read. */
  count(bytes: number): void;
  /** The source has closed its side, and all it sent is with the sink. */
  onEnd(): void;
  /** Reading failed. */
  onSourceError(error: Error): void;
  /** Writing failed; the source is not read any further until `discard`. */
  onSinkError(error: Error): void;
}

/** Where a pump puts bytes. */
export interface Sink {
  /** False when the sink is full, or broken, and keeps the memory of these bytes; it then calls `onReady` or `onError`. */
  write(bytes: Buffer): boolean;
  /** Calls back when the stream under it may be ended: nothing is gathered here any more. Not at all when it broke. */
  end(then: () => void): void;
  onReady: () => void;
  onError: (error: Error) => void;
}
