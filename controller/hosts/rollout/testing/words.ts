/** Replicas in one word each, for tests of rollouts. */
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import type { HostsRolloutInput } from "../types.ts";

/** `<ordinal> <revision> <state> [host]`; silent is Ready on a silent host. */
export interface ShortInput {
  readonly desired: number;
  readonly revision?: string;
  readonly maxSurge?: number;
  readonly maxUnavailable?: number;
  readonly replicas: readonly string[];
  readonly draining?: readonly string[];
  readonly fallback?: string;
  readonly known?: readonly string[];
}

export type WordState = "ready" | "starting" | "silent" | "leaving" | "failing" | "unsettled" | "displaced";

/** Name and host come from the word, so that equal words are the same replica. */
export function replicaOf(word: string): InferenceReplica {
  const [ordinal = "", revision = "", state = "", host = `mac-${ordinal}`] = word.split(" ");
  const isUp = ["ready", "silent", "unsettled"].includes(state);
  const reachable = { type: "HostReachable", status: state === "silent" ? "False" : "True" };
  return {
    metadata: {
      name: `chat-${ordinal}-${revision}${word.split(" ").length > 3 ? host.replaceAll("-", "") : ""}`,
      deletionTimestamp: state === "leaving" ? "now" : undefined,
    },
    spec: { template: { revision, hostName: host } },
    status: { phase: isUp ? "Ready" : "Starting", conditions: [reachable] },
  } as unknown as InferenceReplica;
}

export function inputOf(short: ShortInput): HostsRolloutInput {
  const { maxSurge = 1, maxUnavailable = 1, draining = [], known = ["aa", "bb", "cc"], ...rest } = short;
  const named = short.replicas.map((word) => ({ state: word.split(" ")[2], replica: replicaOf(word) }));
  const namesOf = (state: WordState) =>
    named.filter((one) => one.state === state).map(({ replica }) => replica.metadata.name);
  return {
    ...rest,
    maxSurge,
    maxUnavailable,
    replicas: named.map(({ replica }) => replica),
    displaced: new Set(namesOf("displaced")),
    draining: new Set(draining),
    failing: new Map(namesOf("failing").map((name) => [name, `${name} fails`])),
    unsettled: new Set(namesOf("unsettled")),
    known: new Set(known),
  };
}
