/**
 * The download of one blob as a state machine: `download.ts` runs the effect of each state, and the resulting event selects
 * the next state. agent/store/README.md has the table of states, effects and events.
 */
import { MetalbridgeError } from "../../../src/api/errors.ts";
import type { SourceFailure } from "../../../src/hub/failure.ts";
import type { Content } from "../content/finished-downloads.ts";
import type { Received } from "./context.ts";

/** `failures`: consecutive failures of the source. */
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
  /** Digests of the content's prefixes. */
  readonly prefixes: readonly string[];
}

/** A failed attempt that stored at least this much resets the number of failures to one. */
const PROGRESS_BYTES = 1 << 20;

/** Pure. Throws for an event that is invalid in the state. */
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
  throw new Error(`event ${event.on} is invalid in state ${state.at}`);
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
  const withAttempts = `${message} (${failures} attempts in a row)`;
  return { at: "exhausted", error: new MetalbridgeError(code, withAttempts, remedy, { cause: error }) };
}
