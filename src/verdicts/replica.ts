/** The state of a replica. Pure, and without other modules of the API at run time: the console's pages use it too. */
import type { InferenceReplica, LastExit, ReplicaPhase } from "../api/inference-replica.ts";
import type { StateWord } from "../console/rows.ts";
import { downloadWord } from "./download.ts";

type Reported = Pick<InferenceReplica, "status">;

/** A state with the reason for it; the message is empty if there is nothing to say. */
export interface StateWithReason extends StateWord {
  readonly message: string;
}

const LEVELS: Readonly<Record<ReplicaPhase, StateWord["level"]>> = {
  Pending: "busy",
  Fetching: "busy",
  Admitting: "busy",
  Starting: "busy",
  Ready: "ok",
  Draining: "busy",
  Stopped: "idle",
  Waiting: "warn",
  Backoff: "warn",
  Evicted: "warn",
  Failed: "bad",
};

export function levelOfPhase(phase: string): StateWord["level"] {
  return Object.hasOwn(LEVELS, phase) ? LEVELS[phase as ReplicaPhase] : "idle";
}

/** The controller's report that the host is away, which a dead agent cannot put into its own phase. */
function unreachableHost({ status }: Reported) {
  return status?.conditions?.find(({ type, status: is }) => type === "HostReachable" && is === "False");
}

/** Reported Ready by its agent, on a host that is not reported to be away. */
export function isServing({ metadata, status }: Pick<InferenceReplica, "metadata" | "status">): boolean {
  const isReady = status?.phase === "Ready" && unreachableHost({ status }) === undefined;
  return isReady && metadata.deletionTimestamp === undefined;
}

/** Memory that its host has reserved; before that, the estimate of the controller. */
export function claimBytesOf({ spec, status }: Pick<InferenceReplica, "spec" | "status">): number {
  return status?.memory?.claimBytes ?? spec.memory.claimBytes;
}

export function isHostReachable(replica: Reported): boolean {
  return unreachableHost(replica) === undefined;
}

/** "Starting", or "Ready, host unreachable". */
export function phaseText(replica: Reported): string {
  const phase = replica.status?.phase ?? "Pending";
  return isHostReachable(replica) ? phase : `${phase}, host unreachable`;
}

/** "Fetching 62 %" while the size is known. */
export function stateOfReplica(replica: Reported): StateWithReason {
  const { phase = "Pending", progress, message = "" } = replica.status ?? {};
  const away = unreachableHost(replica);
  if (away !== undefined) return { word: phaseText(replica), level: "bad", message: away.message };
  const word = phase === "Fetching" && progress !== undefined ? downloadWord(phase, [progress]) : phase;
  return { word, level: levelOfPhase(phase), message: phase === "Ready" ? "" : message };
}

/** When its phase or the reason of it last changed. */
export function phaseSince({ status }: Reported): string | undefined {
  return status?.transitions?.at(-1)?.at ?? (status?.phase === "Ready" ? status.readyAt : undefined);
}

/** "SIGKILL, stopped by the agent, HostMemoryShort". */
export function exitText({ code, signal, killedByUs, reason }: LastExit): string {
  const exitStatus = signal ?? (code === undefined ? "exit status unknown" : `exit code ${code}`);
  const by = killedByUs === true ? "stopped by the agent" : undefined;
  return [exitStatus, by, reason].filter((word) => word !== undefined).join(", ");
}
