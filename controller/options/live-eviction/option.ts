/** The option: moves replicas off machines whose score has fallen. */
import { z } from "zod";
import { INFERENCE_SERVICES } from "../../../src/api/kinds.ts";
import type { Fitness, MoveJudge, MoveSettings } from "../../../src/capacity/fitness.ts";
import type { KubeConnection } from "../../../src/kube/client/connect.ts";
import type { RecordEvent } from "../../../src/kube/event/events.ts";
import { PODS } from "../../../src/kube/kinds.ts";
import { objectPath } from "../../../src/kube/paths.ts";
import { createQueue } from "../../../src/kube/queue.ts";
import { GO_DURATION, goDurationSeconds } from "../../../src/util/go-duration.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import { type Departure, type MoveResult, type MoveTracker, moveEndOf } from "../../frame/move-tracker.ts";
import type { Option } from "../../frame/option.ts";
import { reportOn } from "../../frame/watches/events.ts";
import type { Watches } from "../../frame/watches/watches.ts";
import { moveCandidatesFor, moveRefusal, type ObservedWorkload, observeReplicas } from "./observe.ts";

/** Shorter intervals would take one busy moment for a lasting fall of the score; longer ones would find it hours later. */
const CHECK_SECONDS = { min: 10, max: 3_600 };
/** Number of consecutive observations that must show the loss. */
const OBSERVATIONS = 3;
const COOLDOWN_MS = 600_000;
const MINIMUM_STAY_MS = 600_000;

export const liveEvictionConfigSchema = z.strictObject({
  liveEviction: z
    .boolean()
    .default(false)
    .describe(
      "Move replicas away from machines whose fitness for their model has fallen, if there is a better machine.",
    ),
  liveEvictionPercent: z.coerce
    .number()
    .int()
    .min(1)
    .max(100)
    .default(30)
    .describe(
      "Move a replica if the score of its machine has dropped by at least this percentage of the best score seen there.",
    ),
  liveEvictionCheckInterval: z
    .string()
    .regex(GO_DURATION, "must be a duration such as 30s")
    .refine((text) => {
      const seconds = goDurationSeconds(text) ?? 0;
      return seconds >= CHECK_SECONDS.min && seconds <= CHECK_SECONDS.max;
    }, "must be from 10s to 1h")
    .default("30s")
    .describe(
      "Interval between two observations of the scores, such as 30s or 5m, from 10s to 1h. A move needs the drop in 3 consecutive observations.",
    ),
});

type LiveEvictionTimes = Partial<MoveSettings & { readonly intervalMs: number }>;

/** `liveEvictionTimes` overrides the times, for tests. */
export const liveEviction: Option<
  typeof liveEvictionConfigSchema.shape,
  { liveEvictionTimes?: LiveEvictionTimes }
> = {
  shape: liveEvictionConfigSchema.shape,
  needsFitness: "liveEviction",
  start: (config) => {
    const settings = liveEvictionOf(config, config.liveEvictionTimes);
    if (settings === undefined) return {};
    return {
      lead: (ports) => ({
        minimumStayMs: settings.minimumStayMs,
        onWorking: () => {
          const onMoving = (keys: readonly string[]) => keys.forEach(ports.services.enqueue);
          startLiveEviction({ ...ports, liveEviction: settings, onMoving });
        },
      }),
    };
  },
};

/** Undefined if live eviction is off. */
export function liveEvictionOf(
  config: z.output<typeof liveEvictionConfigSchema>,
  times: LiveEvictionTimes = {},
): Required<LiveEvictionTimes> | undefined {
  if (!config.liveEviction) return undefined;
  return {
    intervalMs: (goDurationSeconds(config.liveEvictionCheckInterval) ?? 0) * 1_000,
    threshold: config.liveEvictionPercent / 100,
    observations: OBSERVATIONS,
    cooldownMs: COOLDOWN_MS,
    minimumStayMs: MINIMUM_STAY_MS,
    ...times,
  };
}

interface MoverOptions {
  readonly liveEviction: MoveSettings & { readonly intervalMs: number };
  readonly connection: KubeConnection;
  readonly watches: Watches;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly record: RecordEvent;
  /** Undefined: nothing is moved. */
  readonly fitness: Fitness | undefined;
  readonly moving: MoveTracker;
  readonly countMove: (result: MoveResult) => void;
  /** Called if the moves of these services have changed. */
  readonly onMoving: (services: readonly string[]) => void;
}

const TIMEOUT_MS = 10_000;

/** Runs until `signal` is aborted. */
function startLiveEviction(options: MoverOptions): void {
  const { clock, log, signal, liveEviction: settings, fitness } = options;
  if (fitness === undefined) return;
  const work = { ...options, fitness, judge: fitness.createMoveJudge(settings), scored: new Set<string>() };
  const queue = createQueue<string>({
    clock,
    log: log.child({ queue: "live eviction" }),
    signal,
    reconcile: async () => {
      await pass(work);
      return { recheckAfterMs: settings.intervalMs };
    },
  });
  queue.enqueue("all");
}

type Work = MoverOptions & {
  readonly fitness: Fitness;
  readonly judge: MoveJudge;
  /** Replicas whose first score has been logged. */
  readonly scored: Set<string>;
};

async function pass(options: Work): Promise<void> {
  const { watches, clock, log, moving, fitness, onMoving, judge } = options;
  const nowMs = clock.nowMs();
  onMoving(
    moving.end((service, one) => {
      const hasService = watches.services.get(service) !== undefined;
      return moveEndOf({ hasService, isOnMachine: isOnMachine(watches, service, one) }, one.sinceMs, nowMs);
    }),
  );
  const seen = new Map(observeReplicas(watches, fitness).map((one) => [one.replica, one]));
  logFirstScores(options, seen);
  const candidatesFor = (replica: string) => {
    const one = seen.get(replica);
    return one === undefined ? [] : moveCandidatesFor(watches, one, fitness, nowMs);
  };
  for (const { replica: key, because, notTo } of judge([...seen.values()], candidatesFor, nowMs)) {
    const replica = seen.get(key);
    if (replica === undefined) continue;
    const { service, on, name } = replica;
    const reason = await reasonToStay(options, replica);
    if (reason !== undefined) {
      log.info({ service, name, on }, `not moved: ${reason}`);
      options.countMove("Blocked");
      report(options, replica, "MoveBlocked", `${name} stays on ${on}: ${reason}`);
      continue;
    }
    moving.start(service, { by: replica.by, machine: on, because, sinceMs: nowMs, notTo });
    report(options, replica, "FitnessFell", `moving ${name}: ${because}`);
    onMoving([service]);
  }
}

function logFirstScores({ log, scored }: Work, seen: ReadonlyMap<string, ObservedWorkload>): void {
  for (const replica of scored) if (!seen.has(replica)) scored.delete(replica);
  for (const { replica, name, service, on, score = 0 } of seen.values()) {
    if (score === 0 || scored.has(replica)) continue;
    scored.add(replica);
    log.debug({ service, name, on, score }, "fitness observed");
  }
}

function isOnMachine(
  { ofService, podsOfService }: Watches,
  service: string,
  { by, machine }: Departure,
): boolean {
  return by === "replica"
    ? ofService.replicas.of(service).some(({ spec }) => spec.template.hostName === machine)
    : podsOfService.of(service).some(({ spec }) => spec.nodeName === machine);
}

/** Blocks the move of a pod if none of its Deployment may move, or if a dry run of its eviction fails, for example because of a PodDisruptionBudget. */
async function reasonToStay(
  { connection, watches }: MoverOptions,
  seen: ObservedWorkload,
): Promise<string | undefined> {
  if (seen.by === "replica") return undefined;
  const service = watches.services.get(seen.service);
  const refusal = moveRefusal(watches.ofService.deployments.of(seen.service), service);
  if (refusal !== undefined) return refusal;
  const namespace = service?.metadata.namespace;
  const metadata = { name: seen.name, namespace };
  const evicted = await connection.request({
    method: "POST",
    path: objectPath(PODS, metadata, "eviction", { dryRun: "All" }),
    body: JSON.stringify({ apiVersion: "policy/v1", kind: "Eviction", metadata }),
    timeoutMs: TIMEOUT_MS,
  });
  return evicted.ok ? undefined : evicted.error.message;
}

function report(
  { watches, record }: MoverOptions,
  { service: key }: ObservedWorkload,
  reason: string,
  note: string,
): void {
  const service = watches.services.get(key);
  if (service === undefined) return;
  reportOn(record, INFERENCE_SERVICES, service, { type: "Warning", reason, action: "Move", note });
}
