/** Limits of keys, counters that gateways share, and the records of usage. */
import { randomUUID } from "node:crypto";
import type { KeyLimits } from "../src/gateway/key.ts";
import type { KubeConnection } from "../src/kube/client/connect.ts";
import type { KubeClient } from "../src/kube/types.ts";
import type { Clock, Log } from "../src/util/ports.ts";
import { repeat } from "../src/util/repeat.ts";
import { type GatewayConfig, readCountersUrl } from "./config.ts";
import type { LogPosition } from "./envoy/follow-log.ts";
import { createHeldBodies, type HeldBodies } from "./limits/bodies.ts";
import { type Admission, checkBudget, type Limits, refusalFor, type Spent } from "./limits/limits.ts";
import { createOwnCounters, type LimitedKey } from "./limits/own-counters.ts";
import type { SharedCounters } from "./limits/shared-counters.ts";
import type { UsageFacts } from "./metrics.ts";
import { createTelemetryExporter } from "./telemetry/exporter.ts";
import type { TracedRequest } from "./telemetry/span.ts";
import type { CheckpointFile } from "./usage/checkpoint.ts";
import { createUsageRecorder, watchRecords } from "./usage/recorder.ts";

export interface Accounting {
  readonly limits: Limits;
  readonly bodies: HeldBodies;
  readonly onUsage: (request: TracedRequest) => void;
  /** Position up to which the previous process read the access log. */
  readonly readFrom: LogPosition | undefined;
  readonly readUpTo: (position: LogPosition) => void;
  readonly facts: () => UsageFacts;
  /** Writes the remaining usage, and sends the last spans and metrics. */
  readonly close: () => Promise<void>;
}

export function openAccounting(ports: {
  readonly config: GatewayConfig;
  readonly connection: KubeConnection;
  readonly client: KubeClient;
  /** Name of this gateway in its records. */
  readonly gateway: string;
  readonly gateways: () => number;
  readonly shared: SharedCounters | undefined;
  readonly checkpoint: CheckpointFile;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}): Accounting {
  const { gateways, shared } = ports;
  const { namespace, maxBodyBytes, otlpEndpoint: endpoint } = ports.config;
  const telemetry = endpoint === undefined ? undefined : createTelemetryExporter({ ...ports, endpoint });
  const watched = watchRecords({ ...ports, namespace });
  const recorder = createUsageRecorder({ ...ports, namespace, newId: randomUUID, watched });
  const { spent } = recorder;
  return {
    limits: createLimits({ ...ports, gateways, spent, shared }),
    bodies: createHeldBodies(maxBodyBytes),
    onUsage: (request) => {
      const { caller, model, host, tokens } = request;
      telemetry?.add(request);
      const [of = "", name = ""] = model.split("/");
      recorder.add({ key: caller, namespace: of, model: name, host }, tokens);
    },
    readFrom: ports.checkpoint.found.position,
    readUpTo: recorder.readUpTo,
    facts: () => ({
      usage: recorder.sinceStart(),
      usageWriteFailures: recorder.writeFailures(),
      areCountersShared: shared?.isAvailable(),
    }),
    close: async () => {
      await Promise.all([recorder.flush(), telemetry?.flush()]);
    },
  };
}

/** The client takes 17 MB of memory, so it is loaded only if it is used. */
export async function openSharedCounters({
  config,
  clock,
  log,
  signal,
}: {
  readonly config: GatewayConfig;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}): Promise<SharedCounters | undefined> {
  const url = await readCountersUrl(config);
  if (url === undefined) return undefined;
  const { connectSharedCounters } = await import("./limits/shared-counters.ts");
  const shared = connectSharedCounters({ url, clock, log });
  signal.addEventListener("abort", () => shared.close(), { once: true });
  return shared;
}

interface LimitsPorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Number of gateways; each admits its share of the limits while no counters are shared. */
  readonly gateways: () => number;
  /** Tokens of the key on all gateways, from the usage records. */
  readonly spent: (id: string, nowMs: number) => Spent;
  readonly shared?: SharedCounters | undefined;
}

/** The message about the end of a request is late by no more, also on a busy machine. */
const LATE_MS = 50;
/** Several renewals fit into the expiry time of a request. */
const RENEW_MS = 20_000;
/** While counters are shared, those of this process only track requests in flight. */
const UNLIMITED: KeyLimits = {};

/** Admits requests by the limits of their keys, with counters of this process or of all gateways. */
export function createLimits(ports: LimitsPorts): Limits {
  const { clock, gateways, spent, shared } = ports;
  const own = createOwnCounters();
  const waiting = new Set<() => void>();
  const untilAnswered = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const end = (): void => {
        waiting.delete(end);
        cancel();
        resolve();
      };
      const cancel = clock.after(ms, end);
      waiting.add(end);
    });
  const admitHere = async (key: LimitedKey, requestId: string, nowMs: number): Promise<Admission> => {
    const share = shareOf(key.limits, gateways());
    const isConcurrent = (refusal: Admission | undefined) =>
      refusal?.at === "refused" && refusal.limit === "concurrentRequests";
    // The message about the request before this one comes on another socket, and may be later than its client.
    const untilMs = clock.monotonicMs() + LATE_MS;
    while (isConcurrent(own.check(key, share, nowMs)) && clock.monotonicMs() < untilMs)
      await untilAnswered(untilMs - clock.monotonicMs());
    const refusal = own.check(key, share, nowMs);
    if (refusal !== undefined) return refusal;
    own.begin(key, share, requestId, nowMs);
    return { at: "admitted" };
  };
  const admit: Limits["admit"] = async (key, requestId, nowMs) => {
    const overBudget = hasBudget(key.limits) && checkBudget(key.limits, spent(key.id, nowMs), nowMs);
    if (overBudget) return overBudget;
    if (shared === undefined || !isCounted(key.limits)) return admitHere(key, requestId, nowMs);
    const admission = await shared.admit(key, requestId);
    if (admission.at === "unavailable") return admitHere(key, requestId, nowMs);
    if (admission.at === "refused") return refusalFor(key.limits, admission.limit, admission.waitMs);
    own.begin(key, UNLIMITED, requestId, nowMs);
    return { at: "admitted" };
  };
  if (shared !== undefined) repeat(ports, RENEW_MS, async () => shared.renew(own.inFlight()));
  return {
    admit,
    answered: (requestId) => {
      const key = own.leave(requestId);
      for (const end of waiting) end();
      // The tokens are not known yet.
      if (key?.limits.concurrentRequests !== undefined) shared?.charge(key, requestId, 0);
    },
    ended: (requestId, { tokensIn, tokensOut }, nowMs) => {
      const tokens = tokensIn + tokensOut;
      const key = own.end(requestId, tokens, nowMs);
      if (key !== undefined && isCounted(key.limits)) shared?.charge(key, requestId, tokens);
    },
  };
}

function hasBudget({ tokensPerDay, tokensPerMonth }: KeyLimits): boolean {
  return (tokensPerDay ?? tokensPerMonth) !== undefined;
}

function isCounted({ concurrentRequests, requestsPerMinute, tokensPerMinute }: KeyLimits): boolean {
  return (concurrentRequests ?? requestsPerMinute ?? tokensPerMinute) !== undefined;
}

/**
 * The share of one gateway without shared counters. Rates are divided exactly, concurrent requests are rounded up, because a
 * share of 0 would refuse every request. Budgets are not divided: every gateway reads the usage records of all.
 */
export function shareOf(limits: KeyLimits, gateways: number): KeyLimits {
  const parts = Math.max(1, gateways);
  const part = (limit: number | undefined) => (limit === undefined ? undefined : limit / parts);
  const concurrent = part(limits.concurrentRequests);
  return {
    ...limits,
    concurrentRequests: concurrent === undefined ? undefined : Math.ceil(concurrent),
    requestsPerMinute: part(limits.requestsPerMinute),
    tokensPerMinute: part(limits.tokensPerMinute),
  };
}
