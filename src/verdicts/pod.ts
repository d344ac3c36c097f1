/** The state of a pod, and whether a node is ready. Pure, and without other modules of the API at run time: the console's pages use it too. */
import type { ContainerStatus } from "../kube/workload-objects.ts";
import type { StateWithReason } from "./replica.ts";

interface WithConditions {
  readonly conditions?: readonly { readonly type: string; readonly status: string }[] | undefined;
}

/** For pods and nodes. */
export function isReady({ status }: { readonly status?: WithConditions | undefined }): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") === true;
}

/** The part of a pod that its state follows from. */
export interface PodReport {
  readonly metadata: { readonly deletionTimestamp?: string };
  readonly status?: {
    readonly phase?: string;
    readonly reason?: string;
    readonly message?: string;
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly reason?: string;
      readonly message?: string;
      readonly lastTransitionTime?: string;
    }[];
    readonly containerStatuses?: readonly Pick<ContainerStatus, "restartCount" | "state">[];
    readonly initContainerStatuses?: readonly Pick<ContainerStatus, "restartCount" | "state">[];
  };
}

/** Reasons with which every container waits at first. */
const STARTING = new Set(["", "PodInitializing", "ContainerCreating"]);

/** The cause that holds the pod up: a waiting container first, then a condition that is false. */
export function stateOfPod(pod: PodReport): StateWithReason {
  const { metadata, status } = pod;
  if (metadata.deletionTimestamp !== undefined)
    return { word: "Terminating", level: "busy", message: status?.message ?? "" };
  for (const { state } of [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])]) {
    const { reason = "", message = "" } = state?.waiting ?? {};
    if (!STARTING.has(reason)) return { word: reason, level: "bad", message };
  }
  if (isReady(pod)) return { word: "Ready", level: "ok", message: "" };
  const unmet = status?.conditions?.find(({ status: is, message = "" }) => is !== "True" && message !== "");
  const word = status?.reason ?? unmet?.reason ?? status?.phase ?? "Pending";
  return {
    word,
    level: status?.phase === "Failed" || word === "Unschedulable" ? "bad" : "busy",
    message: status?.message ?? unmet?.message ?? "",
  };
}

export function restartsOf({ status }: Pick<PodReport, "status">): number {
  return (status?.containerStatuses ?? []).reduce((sum, { restartCount = 0 }) => sum + restartCount, 0);
}
