/** The input of the pod template of a service, with the settings of the flavors that it runs on. */
import { withStage } from "../../workload/flavors/build.ts";
import type { PodsInput } from "../../workload/resolve.ts";
import { type LiveService, modelKeyOf, namedModels } from "../path.ts";
import type { PodsPorts } from "./ports.ts";

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
