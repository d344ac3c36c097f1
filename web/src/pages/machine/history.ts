/** What has happened on a host, newest first: reachability, conditions, phases of its replicas. Pure. */
import type { Host } from "../../../../src/api/host.ts";
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import type { StateWord } from "../../../../src/console/rows.ts";
import { levelOfPhase } from "../../../../src/verdicts/replica.ts";

export interface HistoryEntry {
  readonly key: string;
  /** ISO time. */
  readonly at: string;
  /** A condition, or a replica. */
  readonly subject: string;
  readonly state: StateWord;
  readonly reason: string;
  readonly message: string;
}

export function hostHistory(
  { status }: Pick<Host, "status">,
  replicas: readonly Pick<InferenceReplica, "metadata" | "status">[],
): readonly HistoryEntry[] {
  const conditions = (status?.conditions ?? []).filter(({ type }) => type !== "Reachable");
  const entries = [
    ...reachability(status),
    ...conditions.map(({ type, status: is, reason, message, lastTransitionTime }) => ({
      key: `condition ${type}`,
      at: lastTransitionTime,
      subject: type,
      state: { word: is, level: "idle" as const },
      reason,
      message: message ?? "",
    })),
    ...replicas.flatMap(transitionsOf),
  ];
  return entries.sort((a, b) => Date.parse(b.at) - Date.parse(a.at));
}

/** Times alternate, and the newest is that of the present state. */
function reachability(status: Host["status"]): readonly HistoryEntry[] {
  const reachable = status?.conditions?.find(({ type }) => type === "Reachable");
  const times = status?.reachableChanges ?? [];
  if (reachable === undefined) return [];
  const known = times.length > 0 ? times : [reachable.lastTransitionTime];
  return known.toReversed().map((at, back) => {
    const isUp = (reachable.status === "True") === (back % 2 === 0);
    const isNewest = back === 0;
    return {
      key: `reachable ${at} ${back}`,
      at,
      subject: "Reachable",
      state: { word: isUp ? "True" : "False", level: isUp ? "ok" : "bad" },
      reason: isNewest ? reachable.reason : "",
      message: isNewest ? (reachable.message ?? "") : "",
    };
  });
}

function transitionsOf({
  metadata,
  status,
}: Pick<InferenceReplica, "metadata" | "status">): readonly HistoryEntry[] {
  return (status?.transitions ?? []).map(({ at, phase, reason = "", message = "" }, index) => ({
    key: `${metadata.namespace}/${metadata.name} ${at} ${index}`,
    at,
    subject: `${metadata.namespace}/${metadata.name}`,
    state: { word: phase, level: levelOfPhase(phase) },
    reason,
    message,
  }));
}
