/** Rollouts, drains, and hosts that flap or return. */
import type { ErrorEntry } from "./entry.ts";

export const rolloutErrors = {
  NewRevisionRollingOut: {
    what: "A rollout is in progress: replicas of a new revision replace the old ones; the message counts them.",
    do: "nothing to do; follow it with",
    command: "metalbridge rollout status NAME",
  },
  RolloutComplete: {
    what: "All desired replicas run the newest revision and are available.",
    do: "nothing to do",
  },
  RolloutStopped: {
    what: "The rollout is stopped: replicas of the new revision do not become Ready. Replicas of the old revision keep serving.",
    do: "fix the spec, or the BackendRuntime and restart the service, or roll back; the rollout then resumes automatically",
    command: "metalbridge rollout undo NAME",
  },
  RestartNotInPods: {
    what: "`metalbridge rollout restart` replaces pods, but the service has none, and no update to its BackendRuntime is pending. Engines on hosts restart automatically.",
    do: "an engine that hangs or degrades is replaced automatically; to restart one yourself, delete its replica",
    command: "kubectl delete irep REPLICA",
  },
  PodsBusy: {
    what: "The spec has changed, and the old pods still have requests in flight (spec.rolloutPolicy.waitForIdle). They keep serving until they are idle, or until the time in the message.",
    do: "nothing to do; spec.rolloutPolicy.force: true ends the wait",
    command: "kubectl describe isvc NAME",
  },
  IdleCheckFailed: {
    what: "A rollout waits until the old pods are idle, but the metrics of a pod cannot be read, so it counts as busy.",
    do: "wait until the time in the message, or set spec.rolloutPolicy.force; the controller must reach the pods, and with spec.auth it needs the right to read Secrets (rbac.secrets=true in the chart)",
  },
  IdleCheckUnsupported: {
    what: "A rollout waits until the old pods are idle, but the runtime does not report its requests in flight, so they count as busy.",
    do: "wait until the time in the message; name the gauges of runtime generic in spec.inFlightProbe, or remove spec.rolloutPolicy.waitForIdle",
  },
  IdleTimeoutExceeded: {
    what: "The old pods did not become idle within spec.rolloutPolicy.idleTimeoutSeconds (or spec.maxPodLifetimeIdleTimeoutSeconds), and are replaced. Each still finishes its requests, for at most spec.rollout.drainSeconds.",
    do: "nothing to do; raise the limit if responses were interrupted",
  },
  DrainInProgress: {
    what: "The host is being drained and replicas are still on it; the message counts them.",
    do: "wait, or cancel the drain",
    command: "metalbridge uncordon NAME",
  },
  DrainBlocked: {
    what: "The drain is blocked: no other host can take the remaining replicas. They keep serving.",
    do: "free memory on another host, add one, or uncordon the host, which cancels the drain",
    command: "kubectl describe host NAME",
  },
  HostDrained: {
    what: "The host is drained: it has no replicas.",
    do: "nothing to do; the host can be stopped, and is schedulable again after uncordon",
    command: "metalbridge uncordon NAME",
  },
  HostReturned: {
    what: "The host was unreachable or lost, and its agent renews its Lease again.",
    do: "nothing to do; its agent stops the replicas that were replaced in the meantime",
  },
  HostNotLost: {
    what: "The host was marked lost, but its agent renews its Lease, so the mark was removed.",
    do: "stop the agent or the machine first, or drain the host",
    command: "metalbridge drain NAME",
  },
  DeletionForced: {
    what: "A reachable host did not remove a deleted replica within a minute after its drain timeout, so the controller removed the finalizer metalbridge.dev/engine. The engine receives no more requests.",
    do: "check the agent on that host: it hangs, or receives no changes from the cluster. A working agent stops the engine. If you do not trust the host, remove it with `metalbridge host remove`",
    command: "metalbridge doctor",
  },
  NotLost: { what: "The host is not lost.", do: "nothing to do" },
  HostSteady: { what: "The host was flapping and is stable again.", do: "nothing to do" },
  ReplicaCreated: {
    what: "A replica was scheduled on a host; the note has the host and the reason.",
    do: "nothing to do",
  },
  ReplicaRemoved: {
    what: "A replica is being withdrawn, drained and stopped; the note has the reason.",
    do: "nothing to do",
  },
  RevisionReused: {
    what: "The spec matches an older revision, which is now the newest.",
    do: "nothing to do",
  },
} as const satisfies Record<string, ErrorEntry>;
