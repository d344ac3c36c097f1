/** Live eviction at work: observes at an interval, from the watches alone, and starts moves. */

import type { Match } from "../../fitness/catalog/match.ts";
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { objectPath } from "../../src/kube/client/paths.ts";
import type { RecordEvent } from "../../src/kube/events.ts";
import { PODS } from "../../src/kube/kinds.ts";
import { createQueue } from "../../src/kube/queue.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import type { ControllerMetrics } from "../metrics.ts";
import { reportOn } from "../watches/events.ts";
import type { Watches } from "../watches/watches.ts";
import { type Departure, type MoveTracker, moveEndOf } from "./move-tracker.ts";
import { mayHaveMultiplePods, moveCandidatesFor, type ObservedWorkload, observeReplicas } from "./observe.ts";
import {
  chooseMove,
  type LiveEvictionSettings,
  type LiveEvictionState,
  NO_OBSERVATIONS,
  noteMove,
  observeFitness,
} from "./plan.ts";

type Settings = LiveEvictionSettings & { readonly intervalMs: number };

export interface MoverOptions {
  /** Undefined: nothing is moved. */
  readonly liveEviction: Settings | undefined;
  readonly connection: KubeConnection;
  readonly watches: Watches;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly record: RecordEvent;
  readonly matchModel: (name: string) => Match;
  readonly moving: MoveTracker;
  readonly metrics: Pick<ControllerMetrics, "countMove">;
  /** What has to leave which machine has changed for these services. */
  readonly onMoving: (services: readonly string[]) => void;
}

const TIMEOUT_MS = 10_000;

/** Runs until `signal` is aborted. */
export function startLiveEviction(options: MoverOptions): void {
  const { clock, log, signal, liveEviction: settings } = options;
  if (settings === undefined) return;
  let state = NO_OBSERVATIONS;
  const queue = createQueue<string>({
    ...{ clock, log: log.child({ queue: "live eviction" }), signal },
    reconcile: async () => {
      state = await pass(options, settings, state);
      return { recheckAfterMs: settings.intervalMs };
    },
  });
  queue.enqueue("all");
}

async function pass(
  options: MoverOptions,
  settings: Settings,
  before: LiveEvictionState,
): Promise<LiveEvictionState> {
  const { watches, clock, log, moving, matchModel, onMoving } = options;
  const nowMs = clock.nowMs();
  onMoving(
    moving.end((service, one) => {
      const hasService = watches.services.get(service) !== undefined;
      return moveEndOf({ hasService, isOnMachine: isThere(watches, service, one) }, one.sinceMs, nowMs);
    }),
  );
  const seen = new Map(observeReplicas(watches, matchModel).map((one) => [one.replica, one]));
  const { state, due } = observeFitness(before, [...seen.values()], settings, nowMs);
  for (const { replica, name, service, on, score } of seen.values())
    if ((score ?? 0) > 0 && !before.tracked.has(replica))
      log.debug({ service, name, on, score }, "fitness observed");
  let after = state;
  for (const one of due) {
    const replica = seen.get(one.replica);
    const move = replica && chooseMove(one, moveCandidatesFor(watches, replica, matchModel, nowMs), settings);
    if (replica === undefined || move === undefined) continue;
    // Also where it may not leave: it is asked again after the cool-down, not at every interval.
    after = noteMove(after, one.service, nowMs);
    const why = await whyItStays(options, replica);
    if (why !== undefined) {
      log.info({ service: one.service, name: replica.name, on: one.on }, `not moved: ${why}`);
      options.metrics.countMove("Blocked");
      tell(options, replica, "MoveBlocked", `${replica.name} stays on ${one.on}: ${why}`);
      continue;
    }
    const { because, notTo } = move;
    moving.start(one.service, { by: replica.by, machine: one.on, because, sinceMs: nowMs, notTo });
    tell(options, replica, "FitnessFell", `moving ${replica.name}: ${because}`);
    onMoving([one.service]);
  }
  return after;
}

function isThere(
  { ofService, podsOfService }: Watches,
  service: string,
  { by, machine }: Departure,
): boolean {
  return by === "replica"
    ? ofService.replicas.of(service).some(({ spec }) => spec.template.hostName === machine)
    : podsOfService.of(service).some(({ spec }) => spec.nodeName === machine);
}

/** Pods: where there is more than one, or by what the Eviction API says without evicting, so that PodDisruptionBudgets hold. */
async function whyItStays(
  { connection, watches }: MoverOptions,
  seen: ObservedWorkload,
): Promise<string | undefined> {
  if (seen.by === "replica") return undefined;
  const { deployments, autoscalers } = watches.ofService;
  if (mayHaveMultiplePods(deployments.of(seen.service), autoscalers.of(seen.service)))
    return "live eviction moves only services with a single pod, and this one has, or may scale to, more";
  const namespace = watches.services.get(seen.service)?.metadata.namespace;
  const metadata = { name: seen.name, namespace };
  const answer = await connection.request({
    method: "POST",
    path: objectPath(PODS, metadata, "eviction", { dryRun: "All" }),
    body: JSON.stringify({ apiVersion: "policy/v1", kind: "Eviction", metadata }),
    timeoutMs: TIMEOUT_MS,
  });
  return answer.ok ? undefined : answer.error.message;
}

function tell(
  { watches, record }: MoverOptions,
  { service: key }: ObservedWorkload,
  reason: string,
  note: string,
): void {
  const service = watches.services.get(key);
  if (service === undefined) return;
  reportOn(record, INFERENCE_SERVICES, service, { type: "Warning", reason, action: "Move", note });
}
