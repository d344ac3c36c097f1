/** How far a new service is on its way to the first answer. Pure. */

import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../../src/api/inference-service/index.ts";
import type { ServiceRow } from "../../../../src/console/rows.ts";
import { type Download, sumOfDownloads } from "../../../../src/verdicts/download.ts";

export type StartStage = "placing" | "downloading" | "loading" | "ready";

export interface StartProgress {
  readonly stage: StartStage;
  readonly download?: Download | undefined;
  /** Status message of the service, verbatim. */
  readonly message: string;
  /** It does not proceed without a person. */
  readonly isStuck: boolean;
  /** Ready and desired replicas; undefined until both are known. */
  readonly replicas?: { readonly ready: number; readonly desired: number } | undefined;
}

export interface StartingPod {
  readonly status?:
    | { readonly conditions?: readonly { readonly type: string; readonly status: string }[] | undefined }
    | undefined;
}

export interface StartingObjects {
  readonly service: InferenceService;
  readonly replicas: readonly InferenceReplica[];
  readonly pods: readonly StartingPod[];
  readonly row: ServiceRow | undefined;
}

export function startProgressOf({ service, replicas, pods, row }: StartingObjects): StartProgress {
  const stage = stageOf(service, replicas, pods);
  const fetching = replicas.flatMap(({ status }) =>
    status?.phase === "Fetching" ? (status.progress ?? []) : [],
  );
  const download = stage === "downloading" ? sumOfDownloads(fetching) : undefined;
  const message = row?.attention?.message ?? service.status?.message ?? "";
  const isComplete = row === undefined || row.ready >= row.desired;
  const isStuck = row?.attention !== undefined && (stage !== "ready" || !isComplete);
  return { stage, message, isStuck, download, replicas: row };
}

/** The replica that is furthest counts: one ready replica answers. */
function stageOf(
  { status }: InferenceService,
  replicas: readonly InferenceReplica[],
  pods: readonly StartingPod[],
): StartStage {
  if ((status?.readyReplicas ?? 0) > 0) return "ready";
  const phases = replicas.map((replica) => replica.status?.phase);
  if (phases.some((phase) => phase === "Starting" || phase === "Admitting" || phase === "Ready"))
    return "loading";
  if (phases.includes("Fetching")) return "downloading";
  const has = (pod: StartingPod, type: string) =>
    pod.status?.conditions?.some((one) => one.type === type && one.status === "True") === true;
  if (pods.some((pod) => has(pod, "Initialized"))) return "loading";
  return pods.some((pod) => has(pod, "PodScheduled")) ? "downloading" : "placing";
}
