/** Limits of keys, counters that gateways share, and the records of usage. */
import { randomUUID } from "node:crypto";
import type { KubeConnection } from "../src/kube/client/connect.ts";
import type { KubeClient } from "../src/kube/types.ts";
import type { Clock, Log } from "../src/util/ports.ts";
import { type GatewayConfig, readCountersUrl } from "./config.ts";
import type { LogPosition } from "./envoy/follow-log.ts";
import { createHeldBodies, type HeldBodies } from "./limits/bodies.ts";
import { createLimits } from "./limits/create-limits.ts";
import type { Limits } from "./limits/limits.ts";
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
