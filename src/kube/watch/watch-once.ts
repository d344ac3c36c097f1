/** One watch request from open to end. */

import type { IncomingMessage } from "node:http";
import type { Clock } from "../../util/ports.ts";
import { truncate } from "../../util/text.ts";
import type { KubeConnection } from "../client/connect.ts";
import { failureOfNetwork } from "../errors.ts";
import type { ApiFailure, KubeObject } from "../types.ts";
import { createLineSplitter } from "./lines.ts";
import { parseWatchEvent, type WatchEvent } from "./parse-event.ts";

/** How a watch ended. `gone`: the history it wanted to resume from no longer exists. `garbled`: what came was no watch. `silent`: nothing came for long, which a dead connection and a quiet kind have in common. */
export type WatchEnd =
  | { readonly how: "closed" }
  | { readonly how: "gone"; readonly failure: ApiFailure }
  | { readonly how: "garbled"; readonly failure: ApiFailure }
  | { readonly how: "silent" }
  | { readonly how: "failed"; readonly failure: ApiFailure };

export interface WatchCall<T> {
  readonly connection: KubeConnection;
  readonly path: string;
  readonly userAgent?: string | undefined;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** After this long without a byte the watch ends as `silent`. */
  readonly silenceMs: number;
  /** The server has accepted the watch. */
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
    if (signal.aborted) return { how: "closed" };
    if (guard.isSilent()) return { how: "silent" };
    return { how: "failed", failure: failureOfNetwork(error, connection.server) };
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
      if (event === undefined) return { how: "garbled", failure: garbled(line) };
      if (event.type === "ERROR") return endOfFailure(event.failure);
      onEvent(event);
    }
  }
  return { how: "closed" };
}

function endOfFailure(failure: ApiFailure): WatchEnd {
  return failure.kind === "gone" ? { how: "gone", failure } : { how: "failed", failure };
}

function garbled(line: string): ApiFailure {
  return {
    kind: "unexpected",
    status: 200,
    reason: "NotAWatchEvent",
    message: `the watch sent something that is no event: ${truncate(line, 200)}`,
  };
}

// One timer for many bytes: it looks, when it fires, how long the silence has really been.
function guardSilence(
  response: IncomingMessage,
  { clock, silenceMs }: Pick<WatchCall<never>, "clock" | "silenceMs">,
) {
  let lastByteMs = clock.monotonicMs();
  let isSilent = false;
  let cancel = clock.after(silenceMs, look);
  function look(): void {
    const leftMs = lastByteMs + silenceMs - clock.monotonicMs();
    if (leftMs > 0) {
      cancel = clock.after(leftMs, look);
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
