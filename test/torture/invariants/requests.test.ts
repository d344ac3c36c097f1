import { expect, test } from "vitest";
import type { RecordedEvent } from "../observe/recording.ts";
import { at, recordingOf, serving } from "../testing/recording.ts";
import { judgeFailures } from "./requests.ts";

/** What excuses a request from second to second that failed; undefined for a lost one. */
function excuse(
  from: number,
  to: number,
  events: readonly RecordedEvent[],
  more: Parameters<typeof at<"request">>[2] = {},
): string | undefined {
  const failed = { outcome: "failed", failure: "ECONNRESET", endpoint: "10.0.0.1:21000" } as const;
  const request = at(to, "request", { startedAt: from * 1_000, ...failed, ...more });
  const [judged] = judgeFailures(recordingOf(...serving, ...events, request), 200_000);
  return judged?.excuse;
}

const killed = at(10, "engine", { change: "killed" });
const withdrawn = at(10.1, "slice", { isServing: false });

test("in flight on an engine that was killed, and sent there before every proxy had followed", () => {
  expect(excuse(9, 10.2, [killed, withdrawn])).toContain("was killed");
  expect(excuse(12, 12.1, [killed, withdrawn])).toContain("was killed");
  expect(excuse(14, 14.1, [killed, withdrawn])).toBeUndefined();
  expect(excuse(8, 9.5, [killed, withdrawn])).toBeUndefined();
});

test("through a gate that was killed, until another one listens", () => {
  const gate = (second: number, change: "ended" | "started") => at(second, "part", { part: "gate", change });
  expect(excuse(9, 10.2, [gate(10, "ended"), gate(12, "started")])).toContain("the gate of mac-a was killed");
  expect(excuse(14, 14.1, [gate(10, "ended"), gate(12, "started")])).toContain("was killed");
  expect(excuse(16, 16.1, [gate(10, "ended"), gate(12, "started")])).toBeUndefined();
});

test("on a connection from before the kill, however late that shows on a host that was cut off meanwhile", () => {
  const gate = (second: number, change: "ended" | "started") => at(second, "part", { part: "gate", change });
  const story = [gate(10, "ended"), gate(12, "started")];
  const kept = { isKeptAlive: true, idleMs: 101 };
  expect(excuse(30, 30.1, story, { ...kept, ageMs: 22_000 })).toContain(
    "from before the gate of mac-a was killed",
  );
  expect(excuse(30, 30.1, story, { ...kept, ageMs: 18_000 })).toBeUndefined();
  expect(excuse(30, 31, story, { ...kept, ageMs: 22_000, firstByteAt: 30_500 })).toBeUndefined();
});

test("a kube-proxy that could not see the withdrawal is excused for sending until it can", () => {
  const away = [at(9.5, "api", { isUp: false }), at(20, "api")];
  const rules = [at(5, "proxy", { endpoints: ["10.0.0.1:21000"] }), at(27, "proxy")];
  expect(excuse(25, 25.1, [...away, ...rules, killed, withdrawn])).toContain("was killed");
  expect(excuse(31, 31.1, [...away, ...rules, killed, withdrawn])).toBeUndefined();
  expect(excuse(165, 165.1, [...away, killed, withdrawn])).toBeUndefined();
  expect(excuse(25, 25.1, [...rules, killed, withdrawn])).toBeUndefined();
});

test("a kube-proxy that cannot hear gives a recreated Service the endpoints of the one before", () => {
  const away = [at(3, "api", { isUp: false }), at(9, "api")];
  const rules = (second: number, ...endpoints: string[]) => at(second, "proxy", { endpoints });
  const last = rules(5, "10.0.0.1:21000");
  const gone = at(10.1, "slice", { isServing: false, isGone: true });
  const story = [...away, last, gone, rules(11.5)];
  expect(excuse(17, 17.1, story)).toBeUndefined();
  const recreated = [...story, rules(13, "10.0.0.1:21000"), rules(18)];
  expect(excuse(17, 17.1, recreated)).toContain("could not hear");
  expect(excuse(22, 22.1, recreated)).toBeUndefined();
});

test("a kube-proxy without a watch is excused until it has one, for as long as its retries may take and no longer", () => {
  const away = [at(5, "api", { isUp: false }), at(9.5, "api")];
  const rules = [at(3, "proxy", { endpoints: ["10.0.0.1:21000"] })];
  const watch = (second: number, isOpen = true, resource = "endpointslices") =>
    at(second, "proxyWatch", { isOpen, resource });
  const services = [watch(1, true, "services"), watch(10, true, "services")];
  const story = [...away, ...rules, ...services, watch(1), killed, withdrawn];
  expect(excuse(60, 60.1, [...story, watch(9.6)])).toBeUndefined();
  // What it takes up again is answered with 410, and ends.
  const refused = [watch(40), watch(40.1, false)];
  expect(excuse(60, 60.1, [...story, ...refused, watch(99)])).toContain("was killed");
  expect(excuse(110, 110.1, [...story, ...refused, watch(99)])).toBeUndefined();
  expect(excuse(160, 160.1, [...story, ...refused, watch(170)])).toBeUndefined();
  expect(
    excuse(60, 60.1, [...rules, ...services, watch(1), watch(8, false), killed, withdrawn]),
  ).toBeUndefined();
});

test("what the harness saw late is where it was, as far as it can have been", () => {
  const away = [at(0.5, "api", { isUp: false }), at(1, "api")];
  const rules = [at(5, "proxy", { endpoints: ["10.0.0.1:21000"] }), at(30, "proxy")];
  const seenAt16 = at(16, "slice", { isServing: false });
  expect(excuse(13, 13.1, [...away, ...rules, seenAt16])).toBeUndefined();
  expect(excuse(13, 13.1, [...away, ...rules, seenAt16, at(16, "lag", { maxMs: 4_000 })])).toContain(
    "could not hear",
  );
  expect(excuse(11, 11.1, [...away, ...rules, seenAt16, at(16, "lag", { maxMs: 4_000 })])).toBeUndefined();
});

test("a proxy that heard of a drain in time is no excuse, although there was an outage some time ago", () => {
  const away = [at(3, "api", { isUp: false }), at(5, "api")];
  const heard = (second: number) => [at(6, "proxy", { endpoints: ["10.0.0.1:21000"] }), at(second, "proxy")];
  expect(excuse(11, 11.1, [...away, ...heard(11), withdrawn])).toBeUndefined();
  expect(excuse(13, 13.1, [...away, ...heard(14), withdrawn])).toContain("could not hear");
});

test("outages that follow one another keep a proxy from hearing all the while", () => {
  const away = (from: number, to: number) => [at(from, "api", { isUp: false }), at(to, "api")];
  const rules = at(5, "proxy", { endpoints: ["10.0.0.1:21000"] });
  const story = [...away(3, 4), ...away(62, 70), ...away(71, 80), rules];
  const later = [at(61, "engine", { change: "killed" }), at(61.1, "slice", { isServing: false })];
  expect(excuse(90, 90.1, [...story, ...later])).toContain("was killed");
});

test("on a host that is cut off, not on one that has only lost the API server", () => {
  const state = (second: number, now: "cut" | "apiCut" | "whole") => at(second, "link", { state: now });
  expect(excuse(12, 13, [state(10, "cut"), state(20, "whole")])).toContain("was cut off");
  expect(excuse(30, 31, [state(10, "cut"), state(20, "whole")])).toBeUndefined();
  expect(excuse(12, 13, [state(10, "apiCut"), state(20, "whole")])).toBeUndefined();
});

test("on a connection that was kept alive and idle while its engine was drained, and only on such a one", () => {
  const idle = { isKeptAlive: true, idleMs: 900 };
  expect(excuse(10.5, 10.5, [withdrawn], idle)).toContain("kept alive, idle");
  expect(excuse(10.5, 10.5, [withdrawn], { ...idle, idleMs: 40 })).toBeUndefined();
  expect(excuse(10.5, 11, [withdrawn], { ...idle, firstByteAt: 10_700 })).toBeUndefined();
  expect(excuse(10.5, 10.5, [], idle)).toBeUndefined();
});

test("a connection that is busy during the whole drain of its engine is excused, one that a shorter drain ends is not", () => {
  const kept = { isKeptAlive: true, idleMs: 40 };
  expect(excuse(9, 25.2, [withdrawn])).toContain("longer than drainSeconds");
  expect(excuse(9, 24.9, [withdrawn])).toBeUndefined();
  expect(excuse(14, 30, [withdrawn])).toBeUndefined();
  expect(excuse(14, 30, [withdrawn], { ...kept, ageMs: 6_000 })).toContain("longer than drainSeconds");
  expect(excuse(14, 30, [withdrawn], { ...kept, ageMs: 500 })).toBeUndefined();
  expect(excuse(9, 40, [])).toBeUndefined();
  expect(excuse(9, 40, [withdrawn, at(30, "slice")])).toBeUndefined();
});

test("refused although another endpoint was there is lost; refused because all were hit is not", () => {
  const other = at(2, "slice", { replica: "steady-1-def", host: "mac-b", endpoint: "10.0.0.9:21000" });
  const refused = { failure: "ECONNREFUSED" };
  const without = (events: readonly RecordedEvent[]) => {
    const request = at(15, "request", { startedAt: 15_000, outcome: "failed", ...refused });
    return judgeFailures(recordingOf(...serving, ...events, request), 200_000)[0]?.excuse;
  };
  expect(without([killed, withdrawn])).toContain("no endpoint was left");
  expect(without([killed, withdrawn, other])).toBeUndefined();
  expect(without([withdrawn])).toBeUndefined();
});

test("refused because the only host fell silent for longer than its Lease is not lost, before that it is", () => {
  const refused = { failure: "ECONNREFUSED" };
  const after = (second: number, ...silence: readonly RecordedEvent[]) => {
    const at52 = at(52, "request", { startedAt: 52_000, outcome: "failed", ...refused });
    const left = at(second, "slice", { isServing: false });
    return judgeFailures(recordingOf(...serving, ...silence, left, at52), 200_000)[0]?.excuse;
  };
  const cut = (from: number, to: number) => [
    at(from, "link", { state: "apiCut" }),
    at(to, "link", { state: "whole" }),
  ];
  const dead = (from: number, to: number) => [at(from, "part", { change: "ended" }), at(to, "part")];
  expect(after(45, ...cut(10, 80))).toBe("no endpoint was left: mac-a was silent for longer than its Lease");
  expect(after(45, ...dead(10, 51))).toContain("silent");
  expect(after(45, ...cut(10, 30), ...dead(34, 60))).toContain("silent");
  expect(after(45, at(10, "link", { state: "slow" }), ...cut(30, 50))).toContain("silent");
  expect(after(45, ...cut(20, 80))).toBeUndefined();
  expect(after(35, ...cut(10, 80))).toBeUndefined();
  expect(after(45, ...cut(10, 20), ...dead(34, 50))).toBeUndefined();
  expect(after(45)).toBeUndefined();
});

test("on an address that the host no longer has, until its endpoint has followed", () => {
  const moved = at(10, "address");
  const followed = at(14, "slice", { endpoint: "10.0.0.2:21000" });
  expect(excuse(12, 12.1, [moved, followed])).toContain("moved");
  expect(excuse(19, 19.1, [moved, followed])).toBeUndefined();
});

test("on an engine that was frozen, until it is thawed, and not for what becomes of it later", () => {
  const frozen = [at(10, "engine", { change: "paused" }), at(13, "engine", { change: "resumed" })];
  const drained = [at(100, "slice", { isServing: false }), at(103, "engine", { change: "gone" })];
  expect(excuse(11, 12, [...frozen, ...drained])).toContain("was frozen");
  expect(excuse(40, 41, [...frozen, ...drained])).toBeUndefined();
});

test("on the host where the replica was then, although an earlier one of its name was elsewhere", () => {
  const elsewhere = { host: "mac-b", endpoint: "10.0.0.9:21000" };
  const later = [
    at(99, "replica", { uid: "uid-2", host: "mac-b" }),
    at(100, "slice", elsewhere),
    at(110, "link", { host: "mac-b", state: "cut" }),
  ];
  const failed = { outcome: "failed", failure: "ECONNRESET" } as const;
  const requests = [
    at(10.2, "request", { id: 1, startedAt: 9_000, endpoint: "10.0.0.1:21000", ...failed }),
    at(150, "request", { id: 2, startedAt: 112_000, endpoint: elsewhere.endpoint, ...failed }),
  ];
  const judged = judgeFailures(recordingOf(...serving, killed, withdrawn, ...later, ...requests), 200_000);
  expect(judged.map(({ excuse }) => excuse)).toEqual([
    expect.stringContaining("was killed"),
    expect.stringContaining("was cut off"),
  ]);
});
