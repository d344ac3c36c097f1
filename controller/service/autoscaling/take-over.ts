/**
 * Takes over the replicas of a Deployment whose autoscaler an earlier version pointed at the Deployment instead of the service.
 * Without it, the first pass after an upgrade would stop all pods above spec.replicas.
 */
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES } from "../../../src/api/kinds.ts";
import { ApiCallFailed } from "../apply/failure.ts";
import type { StepPorts } from "../apply/run.ts";
import { versionGuards } from "../owned/corrections.ts";
import type { OwnedObjects } from "../owned/observe.ts";

type Scaled = Pick<OwnedObjects, "autoscalers" | "deployments">;

/** The service with the replicas of its Deployment; undefined if the service has changed meanwhile. */
export async function takeOverReplicas(
  { client }: Pick<StepPorts, "client">,
  service: InferenceService,
  own: Scaled,
): Promise<InferenceService | undefined> {
  const replicas = replicasToTakeOver(service, own);
  if (replicas === undefined) return service;
  const { metadata } = service;
  const result = await client.jsonPatch<InferenceService>(INFERENCE_SERVICES, metadata, [
    ...versionGuards(metadata),
    { op: "add", path: "/spec/replicas", value: replicas },
  ]);
  if (result.ok) return result.value;
  if (result.error.kind === "conflict" || result.error.kind === "notFound") return undefined;
  throw new ApiCallFailed(`keep the replicas of ${metadata.name}`, result.error);
}

/** Undefined if there is nothing to take over. */
export function replicasToTakeOver(
  { spec }: InferenceService,
  { autoscalers, deployments }: Scaled,
): number | undefined {
  const isRedirected = autoscalers[0]?.spec.scaleTargetRef.kind !== "Deployment";
  if (spec.autoscaling === undefined || spec.suspend || isRedirected) return undefined;
  const { replicas = 0 } = deployments[0]?.spec ?? {};
  return replicas === 0 || replicas === spec.replicas ? undefined : replicas;
}
