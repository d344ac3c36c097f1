/** A test's order to its clients, as one JSON argument, and their output: one JSON line for each finished request. */

export interface ClientOrder {
  readonly name: string;
  /** One connection for all its requests, or one for each. */
  readonly isKept: boolean;
  readonly isStreamed: boolean;
  readonly maxTokens: number;
  /** Between an answer and the next question, from and to. */
  readonly pauseMs: readonly [number, number];
  /** Asks again, once, where a connection that was used before is reset without a byte of answer. */
  readonly retries: boolean;
}

export interface Orders {
  readonly url: string;
  readonly clients: readonly ClientOrder[];
  /** 60 seconds by default. */
  readonly timeoutMs?: number;
  /** Where kube-proxy sent the requests that failed. */
  readonly tracks?: boolean;
}

/** Times are milliseconds since the epoch on a clock that no step moves. */
export interface Asked {
  readonly client: string;
  readonly isKept: boolean;
  readonly isStreamed: boolean;
  readonly startedAt: number;
  readonly endedAt: number;
  /** "" when it was answered in full. */
  readonly failure: string;
  /** Where it failed; absent where no endpoint was chosen, and without `tracks`. */
  readonly endpoint?: string | undefined;
  /** The reset of a reused connection that came before, where the client asked again. */
  readonly reset?: string;
}
