/** A single watch request. */

import type { IncomingMessage } from "node:http";
import { parseJson } from "../../util/parse-json.ts";
import type { Clock } from "../../util/ports.ts";
import { truncate } from "../../util/text.ts";
import type { KubeConnection } from "../client/connect.ts";
import { hasVersion, isNamed } from "../client/list-pages.ts";
import { failureOfNetwork, failureOfStatus } from "../errors.ts";
import type { ApiFailure, KubeObject } from "../types.ts";
import { createLineSplitter } from "./lines.ts";

/**
 * The end of a watch. `gone`: the server no longer has the history to resume from. `garbled`: the response was no watch.
 * `silent`: no data arrived for a long time, because the connection is dead or the kind is quiet.
 */
export type WatchEnd =
  | { readonly outcome: "closed" }
  | { readonly outcome: "silent" }
  | { readonly outcome: "gone" | "garbled" | "failed"; readonly failure: ApiFailure };

export interface WatchCall<T> {
  readonly connection: KubeConnection;
  readonly path: string;
  readonly userAgent?: string | undefined;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Time without data after which the watch ends as `silent`. */
  readonly silenceMs: number;
  /** Called once the server has accepted the watch. */
  readonly onOpen?: () => void;
  readonly onEvent: (event: Exclude<WatchEvent<T>, { type: "ERROR" }>) => void;
}

const OPEN_TIMEOUT_MS = 15_000;
const MAX_LINE_BYTES = 64 * 1_024 * 1_024;

/** Never rejects; ends as `closed` when `signal` is aborted. */
export async function watchOnce<T extends KubeObject>(call: WatchCall<T>): Promise<WatchEnd> {
  const { connection, path, signal, userAgent } = call;
  const opened = await connection.stream({
    method: "GET",
    path,
    timeoutMs: OPEN_TIMEOUT_MS,
    signal,
    userAgent,
  });
  if (!opened.ok) return endOfFailure(opened.error);
  call.onOpen?.();
  const guard = guardSilence(opened.value, call);
  try {
    return await readEvents(opened.value, call, guard.sawByte);
  } catch (error) {
    if (signal.aborted) return { outcome: "closed" };
    if (guard.isSilent()) return { outcome: "silent" };
    return { outcome: "failed", failure: failureOfNetwork(error, connection.server) };
  } finally {
    guard.stop();
    opened.value.destroy();
  }
}

async function readEvents<T extends KubeObject>(
  response: IncomingMessage,
  { onEvent }: WatchCall<T>,
  sawByte: () => void,
): Promise<WatchEnd> {
  const splitter = createLineSplitter(MAX_LINE_BYTES);
  for await (const chunk of response as AsyncIterable<Buffer>) {
    sawByte();
    for (const line of splitter.push(chunk)) {
      const event = parseWatchEvent<T>(line);
      if (event === undefined) return { outcome: "garbled", failure: garbled(line) };
      if (event.type === "ERROR") return endOfFailure(event.failure);
      onEvent(event);
    }
  }
  return { outcome: "closed" };
}

function endOfFailure(failure: ApiFailure): WatchEnd {
  return { outcome: failure.kind === "gone" ? "gone" : "failed", failure };
}

function garbled(line: string): ApiFailure {
  return {
    kind: "unexpected",
    status: 200,
    reason: "NotAWatchEvent",
    message: `the watch sent a line that is not an event: ${truncate(line, 200)}`,
  };
}

// Uses one timer for many chunks: when it fires, it checks the actual length of the silence.
function guardSilence(
  response: IncomingMessage,
  { clock, silenceMs }: Pick<WatchCall<never>, "clock" | "silenceMs">,
) {
  let lastByteMs = clock.monotonicMs();
  let isSilent = false;
  let cancel = clock.after(silenceMs, check);
  function check(): void {
    const leftMs = lastByteMs + silenceMs - clock.monotonicMs();
    if (leftMs > 0) {
      cancel = clock.after(leftMs, check);
      return;
    }
    isSilent = true;
    response.destroy(new Error("silent"));
  }
  return {
    sawByte: () => {
      lastByteMs = clock.monotonicMs();
    },
    isSilent: () => isSilent,
    stop: () => cancel(),
  };
}

type WatchEvent<T> =
  | { readonly type: "ADDED" | "MODIFIED" | "DELETED"; readonly object: T }
  | { readonly type: "BOOKMARK"; readonly resourceVersion: string }
  | { readonly type: "ERROR"; readonly failure: ApiFailure };

/** Parses a line of a watch. Undefined if the line is not a watch event, so that the stream can no longer be trusted. */
export function parseWatchEvent<T extends KubeObject>(line: string): WatchEvent<T> | undefined {
  const event = parseJson(line) as { type?: unknown; object?: unknown } | null | undefined;
  const object = event?.object;
  switch (event?.type) {
    case "ADDED":
    case "MODIFIED":
    case "DELETED":
      return isNamed(object) ? { type: event.type, object: object as T } : undefined;
    case "BOOKMARK":
      return hasVersion(object)
        ? { type: "BOOKMARK", resourceVersion: object.metadata.resourceVersion }
        : undefined;
    case "ERROR":
      return { type: "ERROR", failure: failureOfStatus(object) };
    default:
      return undefined;
  }
}
