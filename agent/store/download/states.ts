/**
 * The download of one content as a state machine. `download.ts` runs the effect of a state; its event leads to the next.
 *
 * | State      | Effect                                                                  | Event: next state |
 * |------------|-------------------------------------------------------------------------|-------------------|
 * | queued     | waits for a place among the downloads of this host                      | started: peers where they can help, else source |
 * | peers      | takes proven chunks of other hosts while they are the better choice     | received: verifying; useSource: source |
 * | source     | requests what the part lacks, in ranges where one connection is slow    | received: verifying; usePeers: peers; failed: backoff, or exhausted |
 * | backoff    | waits, for as long as the source asks or longer after each failure      | elapsed: source; usePeers: peers |
 * | verifying  | syncs the part and compares its SHA-256 with the stated one             | verified: publishing; usePeers: peers; failed: backoff, or exhausted |
 * | exhausted  | asks whether peers can give what the source does not                    | usePeers: peers; ended: failed |
 * | publishing | notes origin and digests, then renames the part to its blob             | published: done |
 * | done       |                                                                         | |
 * | failed     | moves a download with the wrong checksum to quarantine; throws          | |
 *
 * `peers` and `source` both resume the part, and ask for room on the disk before its next byte and every 64 MiB.
 * An abort, a full disk or a bug ends the download in any state; the part stays for the next one. When a fetch that failed
 * is repeated is decided by whoever wants the model.
 */
import { MetalbridgeError } from "../../../src/api/errors.ts";
import type { SourceFailure } from "../../../src/hub/failure.ts";
import type { Content } from "../content/finished-downloads.ts";
import type { Received } from "./context.ts";

/** `failures`: of the source, in a row. */
export type DownloadState =
  | { readonly at: "queued" }
  | { readonly at: "peers" }
  | { readonly at: "source"; readonly failures: number }
  | { readonly at: "backoff"; readonly failures: number; readonly failure: SourceFailure }
  | ({ readonly at: "verifying"; readonly failures: number } & ReceivedFrom)
  | { readonly at: "exhausted"; readonly error: MetalbridgeError }
  | ({ readonly at: "publishing" } & Verified)
  | { readonly at: "done"; readonly content: Content }
  | { readonly at: "failed"; readonly error: MetalbridgeError };

export type DownloadEvent =
  | { readonly on: "started"; readonly hasPeers: boolean }
  | { readonly on: "usePeers" | "useSource" | "elapsed" | "ended" | "published" }
  | ({ readonly on: "received" } & ReceivedFrom)
  | { readonly on: "failed"; readonly error: SourceFailure | MetalbridgeError }
  | ({ readonly on: "verified" } & Verified);

interface ReceivedFrom {
  readonly received: Received;
  readonly from: "peers" | "source";
}

interface Verified {
  readonly content: Content;
  /** Digests of its prefixes. */
  readonly prefixes: readonly string[];
}

/** An attempt that stores as much counts as the first failure again. */
const PROGRESS_BYTES = 1 << 20;

/** Pure. Throws for an event that the state does not have. */
export function nextState(state: DownloadState, event: DownloadEvent, attempts: number): DownloadState {
  const failures = "failures" in state ? state.failures : 0;
  switch (event.on) {
    case "started":
      return event.hasPeers ? { at: "peers" } : { at: "source", failures };
    case "usePeers":
      return { at: "peers" };
    case "useSource":
    case "elapsed":
      return { at: "source", failures };
    case "received":
      return { at: "verifying", failures, received: event.received, from: event.from };
    case "verified":
      return { at: "publishing", content: event.content, prefixes: event.prefixes };
    case "failed":
      return afterFailure(event.error, failures, attempts);
    case "ended":
      if (state.at === "exhausted") return { at: "failed", error: state.error };
      break;
    case "published":
      if (state.at === "publishing") return { at: "done", content: state.content };
      break;
    default:
      event satisfies never;
  }
  throw new Error(`a download that is ${state.at} cannot have ${event.on}`);
}

function afterFailure(
  error: SourceFailure | MetalbridgeError,
  before: number,
  attempts: number,
): DownloadState {
  if (error instanceof MetalbridgeError) return { at: "exhausted", error };
  const failures = error.gainedBytes >= PROGRESS_BYTES ? 1 : before + 1;
  if (error.isTransient && failures < attempts) return { at: "backoff", failures, failure: error };
  if (failures === 1) return { at: "exhausted", error: error.error };
  const { code, message, remedy } = error.error;
  const explained = `${message} (${failures} attempts in a row)`;
  return { at: "exhausted", error: new MetalbridgeError(code, explained, remedy, { cause: error }) };
}
