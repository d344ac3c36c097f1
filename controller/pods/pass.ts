/** Parts of a pass that services in single pods and in groups of pods share. */
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import type { Blocked } from "../../src/capacity/resolve.ts";
import { engineDescription } from "../../src/engines/registry.ts";
import type { Pod } from "../../src/kube/workload-objects.ts";
import type { OwnedObjects } from "../frame/owned/observe.ts";
import { type LiveService, modelKeyOf, namedModels } from "../frame/service/path.ts";
import { reportOn } from "../frame/watches/events.ts";
import { withMissingClass } from "./claims.ts";
import { readDevices } from "./devices.ts";
import { readMountProblem } from "./mounts.ts";
import { podNodeProblem, readPodExitProblem } from "./node-problems.ts";
import type { Offload } from "./offload.ts";
import { type ObservedPods, readPods } from "./pods.ts";
import type { PodsPorts } from "./ports.ts";
import type { Surroundings } from "./workload/contract.ts";
import { withStage } from "./workload/flavors/build.ts";
import type { PodsInput, PodsResolved } from "./workload/resolve.ts";

export const CONFLICT_RETRY_MS = 1_000;

export function reportRestored(
  { record }: PodsPorts,
  service: InferenceService,
  restored: readonly string[],
): void {
  for (const object of restored) {
    const note = `${object} was edited by another client; the state specified by the InferenceService is restored`;
    const event = { type: "Warning", reason: "ObjectRestored", action: "Restore", note } as const;
    reportOn(record, INFERENCE_SERVICES, service, event);
  }
}

/** Reads pods, nodes and Events. Only Events have the problems of pods that wait for volumes or that their node stopped. */
export async function observePods({ watches, client, clock }: PodsPorts, own: OwnedObjects) {
  const pods = readPods(own.pods);
  const { problem: mountProblem, recheckAfterMs } = await readMountProblem(client, own.pods, clock.nowMs());
  const known = podNodeProblem(own.pods, watches.nodes.get) ?? pods.problem ?? mountProblem;
  const problem = known ?? (await readPodExitProblem(client, own.pods));
  const { deviceClasses } = watches;
  const unscheduled = deviceClasses.isSynced()
    ? withMissingClass(pods.unscheduled, own, deviceClasses.list())
    : pods.unscheduled;
  const devices = await readDevices(client, own.pods);
  return { pods: { ...pods, unscheduled, problem, ...devices }, recheckAfterMs };
}

/** Undefined if the engine cannot silently fall back to the CPU. */
export function offloadOf(
  { offloads }: PodsPorts,
  key: string,
  resolution: PodsResolved<Surroundings> | Blocked,
  pods: readonly Pod[],
): Offload | undefined {
  if (resolution.at === "blocked" || resolution.gpuCount === 0) return undefined;
  const { offloaded } = engineDescription(resolution.runtime)?.pod ?? {};
  return typeof offloaded === "function" ? offloads.read(key, pods, offloaded) : undefined;
}

export function updateQueue(
  { podsQueue, onPositions }: PodsPorts,
  key: string,
  { unscheduled }: ObservedPods,
): void {
  const { priority, sinceMs } = unscheduled ?? {};
  const isWaiting = priority !== undefined && sinceMs !== undefined;
  onPositions(podsQueue.set(key, isWaiting ? { key, priority, sinceMs } : undefined));
}

/** The input of the pod template of a service, with the settings of the flavors that it runs on. */
export function podsInputOf(
  { watches, settings }: Pick<PodsPorts, "watches" | "settings">,
  { service, own, flavor, backend }: LiveService,
): PodsInput {
  const input: PodsInput = {
    service,
    backend,
    ...namedModels(watches.models, service),
    isOnlyService: watches.servicesOfModel.of(modelKeyOf(service)).length === 1,
    settings,
    revisions: own.revisions,
  };
  const { model } = input;
  return flavor?.on === "Pods" && model !== undefined
    ? { ...input, ...withStage(service, model, flavor.stage, input.backend?.spec.engine) }
    : input;
}
