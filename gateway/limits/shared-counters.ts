/** Counters that gateways share through Redis or Valkey. If the server fails, no request waits for it. Each step is one atomic script with the rules of own-counters.ts, and the time is the server's. */
import { createClient, defineScript } from "@redis/client";
import type { KeyLimits } from "../../src/gateway/key.ts";
import { errorMessage } from "../../src/util/error-message.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import type { LimitName } from "./limits.ts";
import type { LimitedKey } from "./own-counters.ts";

export type SharedAdmission =
  | { readonly at: "admitted" }
  | { readonly at: "refused"; readonly limit: LimitName; readonly waitMs: number }
  /** The server did not answer in time: count in this process. */
  | { readonly at: "unavailable" };

export interface SharedCounters {
  readonly admit: (key: LimitedKey, request: string) => Promise<SharedAdmission>;
  /** Ends the request and charges its tokens. They are lost if the server does not answer. */
  readonly charge: (key: LimitedKey, request: string, tokens: number) => void;
  /** Renews requests in flight; the server forgets those of a gateway that crashed. */
  readonly renew: (inFlight: ReadonlyMap<string, readonly string[]>) => void;
  readonly isAvailable: () => boolean;
  readonly close: () => void;
}

/** Maximum time that a request waits for the server. */
const ANSWER_MS = 100;
/** Time after a failure during which requests do not ask the server. */
const AVOID_MS = 1_000;
const CONNECT_MS = 2_000;
const RECONNECT_MAX_MS = 2_000;
/** Together they detect a server that accepts connections and does not answer. */
const PING_MS = 3_000;
const SILENCE_MS = 10_000;
const QUEUE_MAX = 10_000;
const LIMITS: readonly LimitName[] = ["concurrentRequests", "requestsPerMinute", "tokensPerMinute"];

/** A request counts for this long after its gateway stopped renewing it. */
const LEASE_MS = 60_000;
/** Counters of an unused key expire after this time; a token bucket may be in debt for hours. */
const KEPT_MS = 86_400_000;
const NO_LIMIT = "-1";

/** The hash tag keeps both in one slot of a cluster. */
const keysOf = (id: string) => [`metalbridge:{${id}}:buckets`, `metalbridge:{${id}}:in-flight`];
const numberOf = (limit: number | undefined) => (limit === undefined ? NO_LIMIT : String(limit));

const COMMON = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function level(bucket, perMinute)
  local stored = redis.call('HMGET', KEYS[1], bucket, bucket .. 'At')
  if not stored[1] then return perMinute end
  return math.min(perMinute, stored[1] + math.max(0, now - stored[2]) * perMinute / 60000)
end
local function store(bucket, value)
  redis.call('HSET', KEYS[1], bucket, string.format('%.6f', value), bucket .. 'At', now)
  redis.call('PEXPIRE', KEYS[1], ${KEPT_MS})
end
`;

const ADMIT = `${COMMON}
local concurrent, perMinute, tokens = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local function wait(value, rate)
  local missing = math.min(1, rate) - value
  if missing <= 1e-5 then return 0 end
  return math.ceil(missing * 60000 / rate)
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if concurrent >= 0 and redis.call('ZCARD', KEYS[2]) >= concurrent then return {'concurrentRequests', 1000} end
local requestsLeft = perMinute
if perMinute >= 0 then
  requestsLeft = level('requests', perMinute)
  local ms = wait(requestsLeft, perMinute)
  if ms > 0 then return {'requestsPerMinute', ms} end
end
if tokens >= 0 then
  local ms = wait(level('tokens', tokens), tokens)
  if ms > 0 then return {'tokensPerMinute', ms} end
end
if perMinute >= 0 then store('requests', requestsLeft - 1) end
redis.call('ZADD', KEYS[2], now + ${LEASE_MS}, ARGV[4])
redis.call('PEXPIRE', KEYS[2], ${LEASE_MS})
return {'admitted', 0}
`;

const CHARGE = `${COMMON}
redis.call('ZREM', KEYS[2], ARGV[1])
local tokens = tonumber(ARGV[2])
if tokens >= 0 then store('tokens', level('tokens', tokens) - ARGV[3]) end
return 1
`;

const RENEW = `${COMMON}
for index = 1, #ARGV do redis.call('ZADD', KEYS[2], now + ${LEASE_MS}, ARGV[index]) end
redis.call('PEXPIRE', KEYS[2], ${LEASE_MS})
return 1
`;

const counterScripts = {
  admit: defineScript({
    SCRIPT: ADMIT,
    NUMBER_OF_KEYS: 2,
    parseCommand: (parser, id: string, limits: KeyLimits, request: string) => {
      parser.pushKeys(keysOf(id));
      const { concurrentRequests, requestsPerMinute, tokensPerMinute } = limits;
      parser.push(...[concurrentRequests, requestsPerMinute, tokensPerMinute].map(numberOf), request);
    },
    transformReply: (reply: unknown) => reply,
  }),
  charge: defineScript({
    SCRIPT: CHARGE,
    NUMBER_OF_KEYS: 2,
    parseCommand: (parser, id: string, limits: KeyLimits, request: string, tokens: number) => {
      parser.pushKeys(keysOf(id));
      parser.push(request, numberOf(limits.tokensPerMinute), String(tokens));
    },
    transformReply: (reply: unknown) => reply,
  }),
  renew: defineScript({
    SCRIPT: RENEW,
    NUMBER_OF_KEYS: 2,
    parseCommand: (parser, id: string, requests: readonly string[]) => {
      parser.pushKeys(keysOf(id));
      parser.push(...requests);
    },
    transformReply: (reply: unknown) => reply,
  }),
};

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
  // It reconnects automatically, even if the first attempt fails.
  client.connect().catch(failed);
  return {
    admit: async ({ id, limits }, request) => readReply(await ask(() => client.admit(id, limits, request))),
    charge: ({ id, limits }, request, tokens) => void ask(() => client.charge(id, limits, request, tokens)),
    renew: (inFlight) => {
      for (const [id, requests] of inFlight) void ask(() => client.renew(id, requests));
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

/** Rejects after `ms`. A promise that rejects later is ignored. */
function within<T>(clock: Clock, ms: number, promise: Promise<T>): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const cancel = clock.after(ms, () => reject(new Error(`no reply within ${ms} ms`)));
    promise.then(resolve, reject).finally(cancel);
  });
}
