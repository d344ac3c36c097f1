/** The path of pods for an installation that runs services on hosts only: it reports that, and creates nothing. */
import type { InferenceService, InferenceServiceStatus } from "../../src/api/inference-service/index.ts";
import type { Model } from "../../src/api/model.ts";
import { isoSeconds } from "../../src/util/iso-seconds.ts";
import type { ControllerPorts } from "../frame/ports.ts";
import { modelKeyOf, type ServicePath } from "../frame/service/path.ts";
import { readPods } from "./pods.ts";
import { planPodsStatus } from "./status.ts";
import { podsDisabled } from "./workload/cache-eligibility.ts";

export function createNoPodsPath({
  watches,
  clock,
}: Pick<ControllerPorts, "watches" | "clock">): ServicePath {
  return {
    on: "Pods",
    names: "pods",
    prepare: () => {},
    reconcile: async ({ service }) => ({
      status: noPodsStatus(service, watches.models.get(modelKeyOf(service)), isoSeconds(clock.nowMs())),
      obstacle: { at: "none" },
      rejections: [],
      lacking: service.spec.replicas,
    }),
    release: () => {},
    serving: () => 0,
    leave: () => [],
  };
}

/** The status of a service for pods. It is the same whatever else is wrong with the service. Pure. */
export function noPodsStatus(
  service: InferenceService,
  model: Model | undefined,
  nowIso: string,
): InferenceServiceStatus {
  const message = podsDisabled("a service");
  return planPodsStatus(
    {
      service,
      model,
      pods: readPods([]),
      obstacle: { at: "none" },
      rejections: [],
      resolution: { at: "blocked", code: "PodsDisabled", message, isFinal: true },
      deployment: undefined,
      deferral: undefined,
      offload: undefined,
      queuePosition: undefined,
    },
    nowIso,
  );
}
