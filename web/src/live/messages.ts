/** Messages between a page and the worker that holds the stream. */
import type { ApiRefusal, Topic } from "../../../src/console/protocol.ts";

export type LinkState =
  | { readonly at: "connecting" }
  | { readonly at: "live" }
  /** The rows are those of `sinceMs`, on the server's clock. */
  | { readonly at: "reconnecting"; readonly sinceMs: number; readonly why: string }
  /** The server is there, but the API server has not answered it since. Rows are those of `sinceMs`. */
  | { readonly at: "away"; readonly sinceMs: number }
  | { readonly at: "signed-out" };

export type ToWorker =
  /** The topics that the page shows now; replaces earlier ones. `lock` is held by the page until it is gone. */
  | { readonly do: "show"; readonly topics: readonly Topic[]; readonly lock: string }
  /** The page has applied the last batch and is ready for the next. */
  | { readonly do: "next" }
  /** The session has changed. */
  | { readonly do: "reconnect" }
  /** Another reader: the rows of the previous one are dropped in all tabs. */
  | { readonly do: "forget" };

export interface TopicBatch {
  readonly topic: Topic;
  /** Rows received before are gone. */
  readonly isAll: boolean;
  readonly set: readonly (readonly [key: string, row: unknown])[];
  readonly gone: readonly string[];
  readonly refusal?: ApiRefusal;
}

/** What changed since the last batch. */
export interface Batch {
  readonly link?: LinkState;
  /** Time by which the server's clock is ahead of this machine's. */
  readonly serverAheadMs?: number;
  readonly topics: readonly TopicBatch[];
}
