/** What the page of a service needs from its objects. Pure. */

import type { Condition } from "../../../../src/api/conditions.ts";
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../../src/api/inference-service/index.ts";
import type { ServiceRow } from "../../../../src/console/rows.ts";
import type { PodReport } from "../../../../src/verdicts/pod.ts";
import type { ApiObject } from "../../api/kube.ts";

export interface ServiceObjects {
  readonly service: InferenceService;
  readonly replicas: readonly InferenceReplica[];
  readonly pods: readonly ServicePod[];
  /** Row in the list of services; undefined until it has arrived. */
  readonly row: ServiceRow | undefined;
}

/** Sorts the objects of the topic of a service. Undefined without the service. */
export function objectsOf(
  get: (key: string) => unknown,
  rows: readonly unknown[],
  row: ServiceRow | undefined,
): ServiceObjects | undefined {
  const service = get("service") as InferenceService | undefined;
  if (service === undefined) return undefined;
  const all = rows as readonly { readonly kind: string; readonly metadata: { readonly name: string } }[];
  const ofKind = (kind: string) =>
    all
      .filter((one) => one.kind === kind)
      .sort((a, b) => a.metadata.name.localeCompare(b.metadata.name, undefined, { numeric: true }));
  return {
    service,
    row,
    replicas: ofKind("InferenceReplica") as unknown as readonly InferenceReplica[],
    pods: ofKind("Pod") as unknown as readonly ServicePod[],
  };
}

export function conditionOf(
  { status }: InferenceService,
  type: string,
): Pick<Condition, "status" | "reason" | "message" | "lastTransitionTime"> | undefined {
  return status?.conditions?.find((condition) => condition.type === type);
}

export function drainSecondsOf({ spec }: InferenceService): number {
  return spec.rollout.drainSeconds;
}

export interface ServicePod extends ApiObject {
  readonly spec: { readonly nodeName?: string };
  readonly status?: PodReport["status"];
}
