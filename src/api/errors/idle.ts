/** Services that are unloaded while they are not used, and woken by requests. */
import type { ErrorEntry } from "./entry.ts";

const WAKE = "nothing to do: the next request through the gateway loads them";

export const idleErrors = {
  Idle: {
    what: "No request arrived for spec.idle.afterMinutes, so all replicas were unloaded. Their weights stay on disk.",
    do: WAKE,
  },
  IdleForOthers: {
    what: "All replicas were unloaded before spec.idle.afterMinutes, because they had no requests and another service needed their memory.",
    do: `${WAKE}, or queues the service until there is memory`,
  },
  Waking: {
    what: "A request arrived for an idle service, or a window of spec.idle.keepWarm began; its replicas start.",
    do: "wait; the message of the service reports the progress",
    command: "kubectl describe isvc NAME",
  },
  Loaded: {
    what: "The replicas are loaded, or start. They are unloaded once no request has arrived for spec.idle.afterMinutes.",
    do: "nothing to do",
  },
  KeptWarm: {
    what: "A window of spec.idle.keepWarm is open, so the replicas stay loaded without requests.",
    do: "nothing to do",
  },
  UseUnknown: {
    what: "The requests in flight of a replica are unknown, so the replicas stay loaded.",
    do: "make them known: on hosts, set spec.endpoint.gate to Always; in pods, let the controller reach the metrics of the engine. Or remove spec.idle",
  },
} as const satisfies Record<string, ErrorEntry>;
