/** Counters of a key in Redis or Valkey, each step one atomic script. The rules are those of own-counters.ts; the time is the server's. */
import { defineScript } from "@redis/client";
import type { KeyLimits } from "../../src/gateway/key.ts";

/** A request of a gateway that stopped renewing it counts for this long. */
export const LEASE_MS = 60_000;
/** Counters of a key that is not used are forgotten. A token bucket may be in debt for hours. */
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

export const counterScripts = {
  admit: defineScript({
    SCRIPT: ADMIT,
    NUMBER_OF_KEYS: 2,
    parseCommand: (parser, id: string, limits: KeyLimits, ticket: string) => {
      parser.pushKeys(keysOf(id));
      const { concurrentRequests, requestsPerMinute, tokensPerMinute } = limits;
      parser.push(...[concurrentRequests, requestsPerMinute, tokensPerMinute].map(numberOf), ticket);
    },
    transformReply: (reply: unknown) => reply,
  }),
  charge: defineScript({
    SCRIPT: CHARGE,
    NUMBER_OF_KEYS: 2,
    parseCommand: (parser, id: string, limits: KeyLimits, ticket: string, tokens: number) => {
      parser.pushKeys(keysOf(id));
      parser.push(ticket, numberOf(limits.tokensPerMinute), String(tokens));
    },
    transformReply: (reply: unknown) => reply,
  }),
  renew: defineScript({
    SCRIPT: RENEW,
    NUMBER_OF_KEYS: 2,
    parseCommand: (parser, id: string, tickets: readonly string[]) => {
      parser.pushKeys(keysOf(id));
      parser.push(...tickets);
    },
    transformReply: (reply: unknown) => reply,
  }),
};
