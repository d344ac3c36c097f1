/** Counters that several gateways share through Redis or Valkey. Its failure never blocks a request. */
import { createClient } from "@redis/client";
import { errorMessage } from "../../src/util/error-message.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import type { LimitName } from "./limits.ts";
import type { LimitedKey } from "./own-counters.ts";
import { counterScripts } from "./redis-scripts.ts";

export type SharedAdmission =
  | { readonly at: "admitted" }
  | { readonly at: "refused"; readonly limit: LimitName; readonly waitMs: number }
  /** The server does not answer in time: count in this process. */
  | { readonly at: "unavailable" };

export interface SharedCounters {
  readonly admit: (key: LimitedKey, ticket: string) => Promise<SharedAdmission>;
  /** Ends the ticket and charges its tokens. They are lost if the server does not answer. */
  readonly charge: (key: LimitedKey, ticket: string, tokens: number) => void;
  /** Renews tickets in flight; the server forgets those of a gateway that crashed. */
  readonly renew: (inFlight: ReadonlyMap<string, readonly string[]>) => void;
  readonly isAvailable: () => boolean;
  readonly close: () => void;
}

/** A request waits no longer than this for the server. */
const ANSWER_MS = 100;
/** After a failure, requests do not wait at all for this long. */
const AVOID_MS = 1_000;
const CONNECT_MS = 2_000;
const RECONNECT_MAX_MS = 2_000;
/** Together they detect a server that accepts connections and does not answer. */
const PING_MS = 3_000;
const SILENCE_MS = 10_000;
const QUEUE_MAX = 10_000;
const LIMITS: readonly LimitName[] = ["concurrentRequests", "requestsPerMinute", "tokensPerMinute"];

/** `url` is `redis://[[user]:password@]host[:port][/database]`, `rediss://` for TLS. */
export function connectSharedCounters({
  url,
  clock,
  log,
  answerMs = ANSWER_MS,
}: {
  readonly url: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly answerMs?: number;
}): SharedCounters {
  const client = createClient({
    url,
    scripts: counterScripts,
    disableOfflineQueue: true,
    commandsQueueMaxLength: QUEUE_MAX,
    pingInterval: PING_MS,
    socket: {
      connectTimeout: CONNECT_MS,
      socketTimeout: SILENCE_MS,
      reconnectStrategy: (retries) => Math.min(RECONNECT_MAX_MS, 50 * 2 ** retries),
    },
  });
  let avoidUntilMs = 0;
  let hasFailed = false;
  const failed = (error: unknown): void => {
    avoidUntilMs = clock.monotonicMs() + AVOID_MS;
    if (hasFailed) return;
    hasFailed = true;
    log.warn({ problem: errorMessage(error) }, "shared counters are unavailable; counting in this process");
  };
  const answered = (): void => {
    avoidUntilMs = 0;
    if (!hasFailed) return;
    hasFailed = false;
    log.info({}, "shared counters are available again");
  };
  /** Undefined if the server is avoided, fails or does not answer in time. */
  const ask = async (send: () => Promise<unknown>): Promise<unknown> => {
    if (clock.monotonicMs() < avoidUntilMs) return undefined;
    try {
      const reply = await within(clock, answerMs, send());
      answered();
      return reply;
    } catch (error) {
      failed(error);
      return undefined;
    }
  };
  client.on("error", failed);
  client.on("ready", answered);
  // It reconnects automatically, also if the first attempt fails.
  client.connect().catch(failed);
  return {
    admit: async ({ id, limits }, ticket) => readReply(await ask(() => client.admit(id, limits, ticket))),
    charge: ({ id, limits }, ticket, tokens) => void ask(() => client.charge(id, limits, ticket, tokens)),
    renew: (inFlight) => {
      for (const [id, tickets] of inFlight) void ask(() => client.renew(id, tickets));
    },
    isAvailable: () => client.isReady && clock.monotonicMs() >= avoidUntilMs,
    close: () => client.destroy(),
  };
}

function readReply(reply: unknown): SharedAdmission {
  if (!Array.isArray(reply)) return { at: "unavailable" };
  const [word, waitMs] = reply as readonly unknown[];
  if (word === "admitted") return { at: "admitted" };
  const limit = LIMITS.find((name) => name === word);
  return limit === undefined ? { at: "unavailable" } : { at: "refused", limit, waitMs: Number(waitMs) };
}

/** Rejects if the promise is not settled in time. A later rejection is ignored. */
function within<T>(clock: Clock, ms: number, promise: Promise<T>): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const cancel = clock.after(ms, () => reject(new Error(`no answer within ${ms} ms`)));
    promise.then(resolve, reject).finally(cancel);
  });
}
