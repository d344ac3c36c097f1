/** Recordings made by hand, for tests of invariants: what is not said is unremarkable. */
import type { EventOf, RecordedEvent, Recording } from "../observe/recording.ts";

type Given<T extends RecordedEvent["type"]> = Partial<Omit<EventOf<T>, "type" | "at">>;

const UID = "uid-1";
const HOST = "mac-a";
const REPLICA = "steady-0-abc";

const BLANKS: { readonly [T in RecordedEvent["type"]]: Omit<EventOf<T>, "type" | "at"> } = {
  fault: { id: 1, kind: "engine-kill", phase: "injected", detail: "" },
  engine: { change: "appeared", host: HOST, uid: UID, pid: 100 },
  part: { part: "agent", host: HOST, change: "started" },
  api: { isUp: true },
  link: { host: HOST, state: "whole" },
  address: { host: HOST, from: "10.0.0.1", to: "10.0.0.2" },
  disk: { host: HOST, isFull: true },
  replica: {
    name: REPLICA,
    uid: UID,
    service: "steady",
    host: HOST,
    revision: "r1",
    isDeleting: false,
    isGone: false,
    phase: "Ready",
    reason: "",
    message: "",
    hostReachable: "True",
    pid: 100,
  },
  slice: {
    name: `${REPLICA}-slice`,
    service: "steady",
    replica: REPLICA,
    host: HOST,
    endpoint: "10.0.0.1:21000",
    isServing: true,
    isGone: false,
  },
  pod: {
    name: "podded-1",
    uid: "pod-uid",
    service: "podded",
    node: "node-1",
    phase: "Running",
    isReady: true,
    isDeleting: false,
    isGone: false,
  },
  service: {
    name: "steady",
    uid: "service-uid",
    isGone: false,
    isDeleting: false,
    phase: "Ready",
    reason: "",
    message: "",
    wanted: 1,
    ready: 1,
    isObserved: true,
  },
  host: { name: HOST, reachable: "True", reason: "HostReachable", lost: "False" },
  request: {
    id: 1,
    service: "steady",
    isStreamed: false,
    isKeptAlive: false,
    startedAt: 0,
    outcome: "answered",
    failure: "",
  },
  gatewayRequest: { id: 1, service: "steady", startedAt: 0, failure: "" },
  revocation: { service: "steady", startedAt: 0, refusedAfterMs: 100, streamFailure: "" },
  gatewayEnd: { inFlight: 0, queued: 0, recorded: 0 },
  proxy: { endpoints: [] },
  proxyWatch: { resource: "endpointslices", isOpen: true },
  load: { service: "steady", isOn: true },
  lag: { maxMs: 0 },
  round: { index: 0, change: "begins", reasons: [] },
  leftovers: { items: [] },
};

/** One event at a second of the run. */
export function at<T extends RecordedEvent["type"]>(
  second: number,
  type: T,
  given: Given<T> = {},
): EventOf<T> {
  return { at: second * 1_000, type, ...BLANKS[type], ...given } as unknown as EventOf<T>;
}

/** Agent and controller run from the beginning, as they do in every run. */
export function recordingOf(...events: readonly RecordedEvent[]): Recording {
  const agents = ["mac-a", "mac-b", "mac-c"].map((host) => at(0, "part", { host }));
  const begun = [...agents, { ...at(0, "part", { part: "controller" }), host: undefined }] as RecordedEvent[];
  return [...begun, ...events].sort((one, other) => one.at - other.at);
}

/** An engine that serves, as its replica, slice and service all say. */
export const serving: readonly RecordedEvent[] = [
  at(1, "engine"),
  at(2, "replica"),
  at(2, "slice"),
  at(2, "service"),
];
