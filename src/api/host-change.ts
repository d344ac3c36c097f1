/** Cordon and drain of a Host, and the replicas that a drain waits for. Pure, and without other modules at run time: the console's pages use it too. */
import type { Host } from "./host.ts";
import type { InferenceReplica } from "./inference-replica.ts";

/** The fields that decide whether replicas may be scheduled on a host. */
export type HostChange = Partial<Pick<Host["spec"], "unschedulable" | "drain">>;

export const CORDON: HostChange = { unschedulable: true };
/** Also cancels a drain. */
export const UNCORDON: HostChange = { unschedulable: false, drain: false };
export const DRAIN: HostChange = { drain: true };

/** The state of a replica on a host that is drained. */
export function leavingState({ metadata, spec, status }: InferenceReplica): string {
  const phase = status?.phase ?? "Pending";
  const message = status?.message === undefined || status.message === "" ? "" : `: ${status.message}`;
  const isLeaving = metadata.deletionTimestamp !== undefined || spec.drain !== undefined;
  if (phase === "Ready" && !isLeaving) return "Ready; runs until another replica is Ready elsewhere";
  return phase === "Ready" ? "Ready; leaving" : `${phase}${message}`;
}
