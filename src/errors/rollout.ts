/** Rollouts of services, and hosts that come and go. */
import type { ErrorEntry } from "./entry.ts";

export const rolloutErrors = {
  NewRevisionRollingOut: {
    what: "Replicas are being replaced by ones of a new revision; the message counts them.",
    do: "nothing, or follow it",
    command: "metalbridge rollout status NAME",
  },
  RolloutComplete: {
    what: "Every wanted replica is of the newest revision and answers.",
    do: "nothing to do",
  },
  RolloutStopped: {
    what: "Replicas of the new revision do not become Ready, so no further one is replaced; those of the old revision go on serving.",
    do: "correct the spec, or go back to the revision that serves; either goes on by itself",
    command: "metalbridge rollout undo NAME",
  },
  DrainInProgress: {
    what: "The host is being drained and replicas are still on it; the message counts them.",
    do: "wait, or take the drain back",
    command: "metalbridge uncordon NAME",
  },
  DrainBlocked: {
    what: "The host is being drained and replicas stay on it, because no other host can take them now; they go on serving.",
    do: "free memory on another host, add one, or delete or scale down the service that the message names",
    command: "kubectl describe host NAME",
  },
  HostDrained: {
    what: "The host is drained: no replica is left on it.",
    do: "nothing; the host can be stopped, and takes replicas again after uncordon",
    command: "metalbridge uncordon NAME",
  },
  HostReturned: {
    what: "The host was silent or lost, and its agent renews its Lease again.",
    do: "nothing; what was replaced meanwhile is stopped by its agent",
  },
  HostNotLost: {
    what: "The host was declared lost, but its agent renews its Lease, so the declaration was removed.",
    do: "stop the agent or the machine first, or drain the host",
    command: "metalbridge drain NAME",
  },
  HostSteady: { what: "The host came and went for a while, and has been steady since.", do: "nothing to do" },
  ReplicaCreated: {
    what: "A replica was placed on a host; the note says which, and why.",
    do: "nothing to do",
  },
  ReplicaRemoved: {
    what: "A replica is being withdrawn, drained and stopped; the note says why.",
    do: "nothing to do",
  },
  RevisionReused: {
    what: "The spec is that of an older revision again, which has become the newest.",
    do: "nothing to do",
  },
} as const satisfies Record<string, ErrorEntry>;
