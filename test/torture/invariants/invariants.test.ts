/** Every invariant holds over a good recording and fires on a bad one: one that cannot fail would be worth nothing. */
import { describe, expect, test } from "vitest";
import { judge } from "../judge.ts";
import type { RecordedEvent } from "../observe/recording.ts";
import { at, recordingOf, serving } from "../testing/recording.ts";
import { INVARIANTS } from "./registry.ts";

const END = 200_000;

/** Names of the invariants that a recording breaks. */
function broken(...events: readonly RecordedEvent[]): readonly string[] {
  return [...new Set(judge(recordingOf(...events), END).map(({ invariant }) => invariant))];
}

const killed = at(10, "engine", { change: "killed" });
const withdrawn = at(10.1, "slice", { isServing: false });
const restarting = at(10.1, "replica", { phase: "Backoff", reason: "EngineKilled", message: "killed" });
const counted = at(10.2, "service", { ready: 0 });
const reported: readonly RecordedEvent[] = [withdrawn, restarting, counted];

const calledHung: readonly RecordedEvent[] = [
  at(20, "slice", { isServing: false }),
  at(20, "replica", { phase: "Backoff", reason: "EngineHung", message: "3 probes failed" }),
  at(20.1, "engine", { change: "gone" }),
  at(20.2, "service", { ready: 0 }),
];

/** For each invariant: a recording that just keeps it, and a variant of the same story that breaks it. */
const gateKilled = at(10, "part", { part: "gate", change: "ended" });

const stories: Readonly<Record<string, { good: readonly RecordedEvent[]; bad: readonly RecordedEvent[] }>> = {
  requests: {
    good: [...serving, killed, ...reported, at(10.5, "request", { startedAt: 9_900, ...failed() })],
    bad: [...serving, at(10.5, "request", { startedAt: 9_900, ...failed() })],
  },
  "one-engine": {
    good: [...serving, killed, ...reported, at(12, "engine", { pid: 101 })],
    bad: [...serving, at(12, "engine", { pid: 101 })],
  },
  "truth-of-endpoints": {
    good: [...serving, killed, ...reported],
    bad: [...serving, killed, restarting, counted, at(16, "slice", { isServing: false })],
  },
  "truth-of-replicas": {
    good: [...serving, killed, ...reported],
    bad: [
      ...serving,
      killed,
      withdrawn,
      at(16, "replica", { phase: "Backoff", reason: "r", message: "m" }),
      at(16, "service", { ready: 0 }),
    ],
  },
  "hung-engines": {
    good: [
      ...serving,
      ...[at(10, "engine", { change: "paused" }), at(20, "slice", { isServing: false })],
      ...[at(30, "engine", { change: "resumed" }), at(31, "slice")],
      ...[at(50, "fault", { kind: "runner-pause" }), at(50, "engine", { change: "paused" })],
      at(84, "slice", { isServing: false }),
    ],
    bad: [...serving, at(10, "engine", { change: "paused" }), at(22, "slice", { isServing: false })],
  },
  "false-hangs": {
    good: [...serving, at(10, "engine", { change: "paused" }), ...calledHung],
    bad: [...serving, ...calledHung],
  },
  "silent-hosts": {
    good: [...serving, cut(), ...unreachable(54)],
    bad: [...serving, cut(), ...unreachable(58)],
  },
  "counts-of-services": {
    good: [...serving, killed, ...reported],
    bad: [...serving, killed, withdrawn, restarting, at(16, "service", { ready: 0 })],
  },
  "stated-reasons": {
    good: [at(1, "replica", { phase: "Waiting", reason: "WaitingForDisk", message: "the disk is full" })],
    bad: [at(1, "replica", { phase: "Waiting", reason: "", message: "" })],
  },
  orphans: {
    good: [at(1, "engine"), at(10, "replica", { isGone: true }), at(30, "engine", { change: "gone" })],
    bad: [at(1, "engine"), at(10, "replica", { isGone: true }), at(40, "engine", { change: "gone" })],
  },
  "parts-live": {
    good: [at(5, "part", { change: "ended" }), at(6, "part")],
    bad: [at(5, "part", { change: "endedUnasked", detail: "code 1" })],
  },
  "gate-returns": {
    good: [...serving, gateKilled, at(19, "part", { part: "gate" })],
    bad: [...serving, gateKilled, at(21, "part", { part: "gate" })],
  },
  "gateway-requests": {
    good: [
      ...serving,
      ...[at(10, "part", { part: "envoy", change: "ended" }), at(12, "part", { part: "envoy" })],
      at(11, "gatewayRequest", { startedAt: 10_500, failure: "ECONNREFUSED" }),
      // A decision service that is away for a moment loses nothing, so this excuses nothing.
      ...[at(20, "part", { part: "gateway", change: "ended" }), at(22, "part", { part: "gateway" })],
    ],
    bad: [
      ...serving,
      ...[at(20, "part", { part: "gateway", change: "ended" }), at(22, "part", { part: "gateway" })],
      at(21, "gatewayRequest", { startedAt: 20_500, failure: "status 503" }),
    ],
  },
  "gateway-returns": {
    good: [at(10, "part", { part: "gateway", change: "ended" }), at(19, "part", { part: "gateway" })],
    bad: [at(10, "part", { part: "envoy", change: "ended" }), at(21, "part", { part: "envoy" })],
  },
  "gateway-accounts": {
    good: [at(5, "gatewayRequest"), at(6, "gatewayRequest"), at(20, "gatewayEnd", { recorded: 2 })],
    bad: [at(5, "gatewayRequest"), at(6, "gatewayRequest"), at(20, "gatewayEnd", { recorded: 3 })],
  },
  "revoked-keys": {
    good: [at(10, "revocation", { refusedAfterMs: 900 })],
    bad: [at(10, "revocation", { refusedAfterMs: 1_100 })],
  },
  convergence: {
    good: [at(10, "round", { change: "healed" }), at(69, "round", { change: "converged" })],
    bad: [at(10, "round", { change: "healed" }), at(71, "round", { change: "converged" })],
  },
  leftovers: {
    good: [at(9, "leftovers")],
    bad: [at(9, "leftovers", { items: ["engine 100 on mac-a"] })],
  },
};

function failed() {
  return { outcome: "failed", failure: "ECONNRESET", endpoint: "10.0.0.1:21000" } as const;
}

function cut(): RecordedEvent {
  return at(10, "link", { state: "cut" });
}

function unreachable(second: number): readonly RecordedEvent[] {
  return [
    at(second, "host", { reachable: "False", reason: "HostUnreachable" }),
    at(second, "slice", { isServing: false }),
    at(second, "replica", { hostReachable: "False" }),
    at(second, "service", { ready: 0 }),
  ];
}

test("a gate is not replaced while its host's agent is dead, and need not be without an endpoint behind it", () => {
  const late = at(30, "part", { part: "gate" });
  expect(broken(...serving, gateKilled, late)).toEqual(["gate-returns"]);
  const dead = [at(9, "part", { change: "ended" }), at(20, "part")];
  expect(broken(...serving, gateKilled, ...dead, late)).toEqual([]);
  expect(broken(...serving, gateKilled, killed, ...reported, late)).toEqual([]);
});

test("every invariant has a story", () => {
  expect(Object.keys(stories).sort()).toEqual(INVARIANTS.map(({ name }) => name).sort());
});

describe.each(Object.entries(stories))("%s", (name, { good, bad }) => {
  test("holds", () => expect(broken(...good)).toEqual([]));
  test("fires, and nothing else does", () => expect(broken(...bad)).toEqual([name]));
});

test("what the harness saw late because it was late itself is not held against the farm", () => {
  const late = [...serving, killed, restarting, counted, at(16, "slice", { isServing: false })];
  expect(broken(...late)).toEqual(["truth-of-endpoints"]);
  expect(broken(...late, at(15, "lag", { maxMs: 2_000 }))).toEqual([]);
});

test("an agent that is away cannot tell, and has to once it is back", () => {
  const away = [at(9, "part", { change: "ended" }), at(30, "part")];
  const story = (second: number) => [
    ...[...serving, ...away, killed, at(second, "slice", { isServing: false })],
    at(second, "replica", { phase: "Backoff", reason: "r", message: "m" }),
    at(second, "service", { ready: 0 }),
  ];
  expect(broken(...story(40))).toEqual([]);
  expect(broken(...story(60))).toEqual(["truth-of-endpoints", "truth-of-replicas"]);
});

test("a later replica may have an earlier one's name", () => {
  const later = { uid: "uid-2", pid: 200 };
  const gone = [
    at(20, "engine", { change: "gone" }),
    at(20, "slice", { isServing: false }),
    at(20, "replica", { isGone: true }),
  ];
  const back = [at(30, "engine", later), at(30, "replica", later), at(30, "slice")];
  const counts = [at(20, "service", { ready: 0 }), at(30, "service")];
  expect(broken(...serving, ...gone, ...back, ...counts)).toEqual([]);
});

test("two ready replicas of one slot count once, as while a new one is not trusted yet", () => {
  const second = (name: string) => at(6, "replica", { uid: "uid-2", name });
  const until = at(60, "service", { ready: 1 });
  const one = at(5, "replica", { name: "chat-0-aaaa" });
  expect(broken(one, at(5, "service"), second("chat-0-bbbb"), until)).not.toContain("counts-of-services");
  expect(broken(one, at(5, "service"), second("chat-1-bbbb"), until)).toContain("counts-of-services");
});

test("a replica that comes back to a daemon has an engine again, with the same pid", () => {
  const gone = [at(20, "engine", { change: "gone" }), at(20, "slice", { isServing: false })];
  const away = at(20, "replica", { phase: "Backoff", reason: "r", message: "m" });
  const counts = [at(20, "service", { ready: 0 }), at(30, "service")];
  const back = [at(30, "replica"), at(30, "slice")];
  expect(broken(...serving, ...gone, away, ...counts, ...back, at(30, "engine"))).toEqual([]);
  expect(broken(...serving, ...gone, away, ...counts, ...back)).toEqual([
    "truth-of-endpoints",
    "truth-of-replicas",
  ]);
});

test("an earlier replica of the same name on another host does not make its host's silence a later one's", () => {
  const later = { uid: "uid-2", host: "mac-b" };
  const moved = [
    at(5, "engine", { change: "gone" }),
    at(5, "slice", { isServing: false }),
    at(5, "replica", { isGone: true }),
    at(6, "engine", { ...later, pid: 200 }),
    at(6, "replica", { ...later, pid: 200 }),
    at(6, "slice", { host: "mac-b" }),
  ];
  const [reported] = unreachable(54);
  const silence = [cut(), ...(reported === undefined ? [] : [reported])];
  expect(broken(...serving, ...moved, ...silence)).toEqual([]);
  const itsOwn = silence.map((event) => ({ ...event, host: "mac-b", name: "mac-b" }));
  expect(broken(...serving, ...moved, ...(itsOwn as RecordedEvent[]))).toEqual(["silent-hosts"]);
});

describe("a pod on a node", () => {
  const pod = { host: "node-1", uid: "pod-uid", pid: 300 };
  const place = { service: "podded", replica: "podded-1", host: "node-1", endpoint: "10.84.1.2:8080" };
  const counted = (second: number, ready: number) =>
    at(second, "service", { name: "podded", uid: "podded-uid", ready });
  const kubelet = at(0, "part", { part: "kubelet", host: "node-1" });
  const up = [kubelet, at(1, "engine", pod), at(2, "pod"), at(2, "slice", place), counted(2, 1)];
  const died = at(10, "engine", { ...pod, change: "killed" });
  const left = (second: number) => [
    at(second, "slice", { ...place, isServing: false }),
    at(second, "pod", { isReady: false }),
    counted(second, 0),
  ];
  const lost = at(11, "request", {
    ...failed(),
    startedAt: 9_900,
    service: "podded",
    endpoint: place.endpoint,
  });

  test("is held to what a replica is", () => {
    expect(broken(...up, died, ...left(12), lost)).toEqual([]);
    expect(broken(...up, lost)).toEqual(["requests"]);
    expect(broken(...up, died, ...left(16))).toEqual(["truth-of-endpoints"]);
    expect(broken(...up, at(20, "engine", { ...pod, pid: 301 }))).toEqual(["one-engine"]);
    expect(broken(...up, at(10, "pod", { isReady: false }))).toEqual(["counts-of-services"]);
  });

  test("that is being deleted gets requests only while no other is ready, and may be gone before they arrive", () => {
    const other = { service: "podded", replica: "podded-2", host: "node-2", endpoint: "10.85.1.2:8080" };
    const [two, engine] = [
      { name: "podded-2", uid: "uid-2" },
      { host: "node-2", uid: "uid-2", pid: 301 },
    ];
    const both = [at(1, "engine", engine), at(2, "pod", two), at(2, "slice", other), counted(2, 2)];
    const deleted = [
      at(20, "pod", { isDeleting: true }),
      at(20, "slice", { ...place, isServing: false }),
      at(26, "engine", { ...pod, change: "gone" }),
    ];
    const lost = at(27, "request", {
      ...failed(),
      startedAt: 26_900,
      service: "podded",
      endpoint: place.endpoint,
    });
    const gone = [
      at(10, "engine", { ...engine, change: "killed" }),
      at(10.1, "slice", { ...other, isServing: false }),
      at(10.1, "pod", { ...two, isReady: false }),
    ];
    expect(broken(...up, ...both, ...gone, counted(10.2, 1), ...deleted, counted(20, 0), lost)).toEqual([]);
    expect(broken(...up, ...both, ...deleted, counted(20, 1), lost)).toEqual(["requests"]);
  });

  test("serves on without its kubelet, which reports its end once it is back, or until its node is unreachable", () => {
    const stopped = at(9, "part", { part: "kubelet", host: "node-1", change: "ended" });
    const back = at(40, "part", { part: "kubelet", host: "node-1" });
    expect(broken(...up, stopped, died, ...left(30), lost, back)).toEqual([]);
    expect(broken(...up, stopped, died, ...left(70), lost, back)).toEqual(["truth-of-endpoints"]);
    const { endpoint: _none, ...refusal } = failed();
    const without = (second: number) =>
      at(second, "request", { ...refusal, startedAt: second * 1_000, service: "podded" });
    expect(broken(...up, stopped, ...left(29), without(33), back)).toEqual([]);
    expect(broken(...up, stopped, ...left(20), without(24), back)).toEqual(["requests"]);
  });
});

test("usage lacks only requests whose lines a killed Envoy or a full disk has lost, and no slot stays taken", () => {
  const answered = at(9.5, "gatewayRequest");
  const end = at(20, "gatewayEnd", { recorded: 0 });
  expect(broken(answered, end)).toEqual(["gateway-accounts"]);
  const envoy = [at(10, "part", { part: "envoy", change: "ended" }), at(12, "part", { part: "envoy" })];
  expect(broken(answered, ...envoy, end)).toEqual([]);
  const disk = [at(9, "disk", { host: "gateway" }), at(12, "disk", { host: "gateway", isFull: false })];
  expect(broken(answered, ...disk, end)).toEqual([]);
  expect(broken(at(20, "gatewayEnd", { inFlight: 1 }))).toEqual(["gateway-accounts"]);
});

test("the stream of a revoked key ends normally, unless its engine was killed", () => {
  const cutStream = at(11, "revocation", { startedAt: 9_000, streamFailure: "cut: ECONNRESET" });
  expect(broken(...serving, cutStream)).toEqual(["revoked-keys"]);
  expect(broken(...serving, killed, ...reported, cutStream)).toEqual([]);
});
