/** The revisions that replicas can be created from: the newest, and those in ControllerRevisions. Pure. */
import { type Claim, claimOf } from "../../../src/capacity/claim.ts";
import type { Resolution } from "../../../src/capacity/resolve.ts";
import { parseRevisionData } from "../../../src/capacity/revision-data.ts";
import type { TemplateWithoutHost } from "../../../src/capacity/template.ts";
import type { ControllerRevision } from "../../../src/kube/objects.ts";
import { hashOfRevision } from "../../frame/owned/revisions.ts";
import type { ServiceObserved } from "./observed.ts";

export interface Runnable {
  readonly template: TemplateWithoutHost;
  readonly claim: Claim;
  /** Command that installs the program of the BackendRuntime; only of the newest revision. */
  readonly install?: string | undefined;
}

/** Templates by revision. Old revisions are included only if requested, because parsing them is expensive. */
export function runnablesOf(
  observed: ServiceObserved,
  resolution: Resolution,
  withOld: boolean,
): ReadonlyMap<string, Runnable> {
  const runnables = new Map<string, Runnable>();
  if (resolution.at !== "resolved") return runnables;
  for (const revision of withOld ? observed.revisions : []) {
    const runnable = oldRunnable(observed, revision);
    if (runnable !== undefined) runnables.set(hashOfRevision(revision), runnable);
  }
  return runnables.set(resolution.template.revision, resolution);
}

/** The claim of an old revision is known from one of its replicas, or from the Model if its source is still the same. */
function oldRunnable(
  { model, replicas, service }: ServiceObserved,
  { data }: ControllerRevision,
): Runnable | undefined {
  const template = parseRevisionData(data)?.template;
  if (template === undefined || template.serviceUid !== service.metadata.uid) return undefined;
  const running = replicas.find(({ spec }) => spec.template.revision === template.revision);
  const memory = running?.spec.memory;
  if (memory !== undefined && memory.claimBytes > 0) return { template, claim: { at: "estimated", memory } };
  if (model === undefined || model.spec.source !== template.model.source) return undefined;
  if (template.draft !== undefined) return undefined;
  const claim = claimOf({ template, model, draftModel: undefined, replicas });
  return claim.at === "unsizable" ? undefined : { template, claim };
}
