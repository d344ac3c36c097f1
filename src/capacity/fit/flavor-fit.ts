/** Determines where another replica of a service would fit, on the flavors of its Model for hosts. Pure. */
import { MetalbridgeError } from "../../api/errors.ts";
import type { Flavor } from "../../api/flavors.ts";
import type { InferenceService } from "../../api/inference-service/index.ts";
import type { Model } from "../../api/model.ts";
import { onHostsOf } from "../flavors/apply.ts";
import { contradictionOf } from "../flavors/contradictions.ts";
import { flavorsOf, platformOfFlavor } from "../flavors/narrow.ts";
import { withParams } from "../resolve.ts";
import { fitOfService, type ServiceFit, type ServiceObjects } from "./service-fit.ts";

export interface FlavorFit extends ServiceFit {
  /** The flavor of the answer: the first one with room on a host, or else the first one for hosts. Undefined without flavors. */
  readonly flavor: string | undefined;
  /** Flavors for pods, which kube-scheduler places. */
  readonly inPods: readonly string[];
}

/** Throws MetalbridgeError if the service cannot run on any host in its current form. */
export function fitOnFlavors(objects: ServiceObjects & { readonly model: Model }, nowMs: number): FlavorFit {
  const { service, model } = objects;
  const narrowed = flavorsOf(service.spec, model);
  if (narrowed === undefined) return { ...fitOfService(objects, nowMs), flavor: undefined, inPods: [] };
  const { flavors, unknown } = narrowed;
  const owner = `Model ${model.metadata.name}`;
  if (flavors.length === 0)
    throw new MetalbridgeError("FlavorNotFound", `${owner} has no flavor ${unknown.join(", ")}`);
  const judged = flavors.map((flavor) => ({ flavor, problem: problemOnHosts(service, flavor) }));
  const [first, ...others] = judged.filter(({ problem }) => problem === undefined);
  if (first === undefined) {
    const reasons = judged.map(({ flavor, problem }) => `${flavor.name}: ${problem}`).join("; ");
    throw new MetalbridgeError("NoFlavorFits", `no flavor of ${owner} runs on hosts: ${reasons}`);
  }
  const inPods = flavors.filter((one) => platformOfFlavor(one) === "Pods").map(({ name }) => name);
  const answer = ({ flavor }: { readonly flavor: Flavor }): FlavorFit => ({
    ...fitOn(objects, flavor, nowMs),
    flavor: flavor.name,
    inPods,
  });
  const hasRoom = ({ report }: ServiceFit) => report.choice !== undefined;
  const ofFirst = answer(first);
  return hasRoom(ofFirst) ? ofFirst : (others.map(answer).find(hasRoom) ?? ofFirst);
}

function problemOnHosts({ spec }: InferenceService, flavor: Flavor): string | undefined {
  return platformOfFlavor(flavor) === "Pods"
    ? "it selects nodes, where kube-scheduler decides"
    : contradictionOf(spec, flavor);
}

function fitOn(objects: ServiceObjects, flavor: Flavor, nowMs: number): ServiceFit {
  const { service, backend } = objects;
  const placed = withParams(onHostsOf(service, flavor), flavor.params, backend);
  return fitOfService({ ...objects, service: placed }, nowMs);
}
