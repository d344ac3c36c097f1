/** What a run writes down: everything that was done to the farm and everything that it showed, with times. */
import type { FaultKind, ServiceName } from "../plan/catalog.ts";

export type LinkNow = "whole" | "cut" | "apiCut" | "slow" | "lossy";

/** All times are milliseconds since the beginning of the run, on one monotonic clock. */
interface At {
  readonly at: number;
}

export interface FaultEvent extends At {
  readonly type: "fault";
  readonly id: number;
  readonly kind: FaultKind;
  readonly phase: "injected" | "healed" | "skipped";
  readonly target?: string;
  readonly detail: string;
}

/** A main process of an engine, as /proc shows it. `harmed` and `unharmed` are what faults did to it. */
export interface EngineEvent extends At {
  readonly type: "engine";
  readonly change: "appeared" | "gone" | "killed" | "paused" | "resumed";
  readonly host: string;
  /** UID of the replica whose run directory it has, or of the pod that it runs in. */
  readonly uid: string;
  readonly pid: number;
}

export interface PartEvent extends At {
  readonly type: "part";
  readonly part: "agent" | "controller" | "gate" | "kubelet" | "gateway" | "envoy";
  readonly host?: string;
  readonly change: "started" | "ended" | "paused" | "resumed" | "endedUnasked";
  readonly detail?: string;
}

export interface ApiEvent extends At {
  readonly type: "api";
  readonly isUp: boolean;
}

export interface LinkEvent extends At {
  readonly type: "link";
  readonly host: string;
  readonly state: LinkNow;
}

export interface AddressEvent extends At {
  readonly type: "address";
  readonly host: string;
  readonly from: string;
  readonly to: string;
}

export interface DiskEvent extends At {
  readonly type: "disk";
  readonly host: string;
  readonly isFull: boolean;
}

export interface ReplicaEvent extends At {
  readonly type: "replica";
  readonly name: string;
  readonly uid: string;
  readonly service: string;
  readonly host: string;
  readonly revision: string;
  readonly isDeleting: boolean;
  /** The object is no more. */
  readonly isGone: boolean;
  readonly phase: string;
  readonly reason: string;
  readonly message: string;
  /** What the controller says of its host; "" before it has said anything. */
  readonly hostReachable: string;
  readonly pid?: number;
}

/** The state of one endpoint, of a replica or of a pod: a pod counts as a replica, and its node as its host. */
export interface SliceEvent extends At {
  readonly type: "slice";
  readonly name: string;
  readonly service: string;
  readonly replica: string;
  readonly host: string;
  readonly endpoint?: string;
  /** kube-proxy sends new connections there. */
  readonly isServing: boolean;
  readonly isGone: boolean;
}

export interface PodEvent extends At {
  readonly type: "pod";
  readonly name: string;
  readonly uid: string;
  readonly service: string;
  /** "" until it is bound to one. */
  readonly node: string;
  readonly phase: string;
  readonly isReady: boolean;
  readonly isDeleting: boolean;
  readonly isGone: boolean;
}

export interface ServiceEvent extends At {
  readonly type: "service";
  readonly name: string;
  readonly uid: string;
  readonly isGone: boolean;
  readonly isDeleting: boolean;
  readonly phase: string;
  readonly reason: string;
  readonly message: string;
  readonly wanted: number;
  readonly ready: number;
  readonly isObserved: boolean;
}

export interface HostEvent extends At {
  readonly type: "host";
  readonly name: string;
  readonly reachable: string;
  readonly reason: string;
  readonly lost: string;
}

/** One request of the load, once it finished. */
export interface RequestEvent extends At {
  readonly type: "request";
  readonly id: number;
  readonly service: ServiceName;
  readonly isStreamed: boolean;
  readonly isKeptAlive: boolean;
  readonly startedAt: number;
  readonly firstByteAt?: number;
  readonly outcome: "answered" | "failed";
  /** Why, in words; "" when it was answered. */
  readonly failure: string;
  readonly status?: number;
  /** The connection had carried a request before; how long it had been idle since. */
  readonly idleMs?: number;
  /** Since the first request on that connection. */
  readonly ageMs?: number;
  /** Where kube-proxy sent it, as the connection tracking says; looked up for failures only. */
  readonly endpoint?: string;
}

/** One request of the load through the gateway. */
export interface GatewayRequestEvent extends At {
  readonly type: "gatewayRequest";
  readonly id: number;
  readonly service: ServiceName;
  readonly startedAt: number;
  /** "" if it was answered. */
  readonly failure: string;
  readonly status?: number;
}

/** A key was revoked while a stream of it was on its way. */
export interface RevocationEvent extends At {
  readonly type: "revocation";
  readonly service: ServiceName;
  readonly startedAt: number;
  /** Absent: its requests were still accepted after 10 s. */
  readonly refusedAfterMs?: number | undefined;
  readonly streamFailure: string;
}

/** The gateway after the last request. */
export interface GatewayEndEvent extends At {
  readonly type: "gatewayEnd";
  /** Requests with a slot, and requests in a queue. */
  readonly inFlight: number;
  readonly queued: number;
  /** Requests of the load in the records of usage. */
  readonly recorded: number;
}

/** Where kube-proxy sends new connections, of all Services together. */
export interface ProxyEvent extends At {
  readonly type: "proxy";
  readonly endpoints: readonly string[];
}

/** A watch of kube-proxy begins or ends, as the API server's audit log says it: what it has no watch of it does not know. */
export interface ProxyWatchEvent extends At {
  readonly type: "proxyWatch";
  readonly resource: string;
  readonly isOpen: boolean;
}

/** The service's load is on or off: it is off while it is away on purpose. */
export interface LoadEvent extends At {
  readonly type: "load";
  readonly service: ServiceName;
  readonly isOn: boolean;
}

/** The longest time in which the harness itself did not get to run. */
export interface LagEvent extends At {
  readonly type: "lag";
  readonly maxMs: number;
}

export interface RoundEvent extends At {
  readonly type: "round";
  readonly index: number;
  readonly change: "begins" | "healed" | "converged" | "notConverged";
  /** What was still in the way. */
  readonly reasons: readonly string[];
  /** Waits that replicas had announced, beyond the deadline that everything has. */
  readonly allowedMs?: number;
}

export interface LeftoversEvent extends At {
  readonly type: "leftovers";
  readonly items: readonly string[];
}

export type RecordedEvent =
  | FaultEvent
  | EngineEvent
  | PartEvent
  | ApiEvent
  | LinkEvent
  | AddressEvent
  | DiskEvent
  | ReplicaEvent
  | SliceEvent
  | PodEvent
  | ServiceEvent
  | HostEvent
  | RequestEvent
  | GatewayRequestEvent
  | RevocationEvent
  | GatewayEndEvent
  | ProxyEvent
  | ProxyWatchEvent
  | LoadEvent
  | LagEvent
  | RoundEvent
  | LeftoversEvent;

type WithoutTime<T> = T extends At ? Omit<T, "at"> : never;
export type NewEvent = WithoutTime<RecordedEvent>;

export type Recording = readonly RecordedEvent[];

export type EventOf<T extends RecordedEvent["type"]> = Extract<RecordedEvent, { type: T }>;

const sorted = new WeakMap<
  Recording,
  { readonly length: number; readonly byType: ReadonlyMap<string, unknown> }
>();

/** The events of one type, in order. Judges ask for them thousands of times during a run: sorted once. */
export function eventsOf<T extends RecordedEvent["type"]>(
  recording: Recording,
  type: T,
): readonly EventOf<T>[] {
  let known = sorted.get(recording);
  // A recording that still grows is sorted again.
  if (known?.length !== recording.length) {
    const byType = new Map<string, RecordedEvent[]>();
    for (const event of recording) {
      const events = byType.get(event.type) ?? [];
      byType.set(event.type, events);
      events.push(event);
    }
    known = { length: recording.length, byType };
    sorted.set(recording, known);
  }
  return (known.byType.get(type) ?? []) as readonly EventOf<T>[];
}
