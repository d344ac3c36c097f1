import { expect, test } from "vitest";
import type { Host } from "../api/host.ts";
import { hostText, osText, stateOfHost } from "./host.ts";

type Conditions = Readonly<Record<string, `${"True" | "False" | "Unknown"} ${string}`>>;

function host(conditions: Conditions | undefined, spec: object = {}): Host {
  const list = Object.entries(conditions ?? {}).map(([type, text]) => {
    const [status, reason] = text.split(" ");
    return { type, status, reason, message: "", lastTransitionTime: "2026-01-01T00:00:00Z" };
  });
  const status = conditions === undefined ? undefined : { conditions: list };
  return { metadata: { name: "mini-1" }, spec, status } as unknown as Host;
}

const READY: Conditions = { Ready: "True AgentReady", Reachable: "True HostReachable" };
const AWAY: Conditions = { ...READY, Reachable: "False LeaseExpired" };
const cordoned = { unschedulable: true };
const drain = { drain: true };

/** The word of the console, its level, and the line of the CLI. */
test.each<[string, Host, string, string, string]>([
  ["without a status", host(undefined), "Not joined", "idle", "Not joined"],
  ["with an empty status", host({}), "Unknown", "warn", "Unknown"],
  [
    "never seen",
    host({ Reachable: "Unknown HostNeverSeen" }),
    "Not joined",
    "idle",
    "Not joined (HostNeverSeen)",
  ],
  ["that is fine", host(READY), "Ready", "ok", "Ready"],
  ["that starts", host({ ...READY, Ready: "False Starting" }), "Starting", "busy", "Starting"],
  [
    "without engines",
    host({ ...READY, Ready: "False NoRuntime" }),
    "Not ready",
    "bad",
    "Not ready (NoRuntime)",
  ],
  [
    "that is green and silent",
    host(AWAY, cordoned),
    "Unreachable",
    "bad",
    "Unreachable (LeaseExpired), cordoned",
  ],
  [
    "that is lost",
    host({ ...AWAY, Lost: "True HostLost" }, drain),
    "Lost",
    "bad",
    "Lost (HostLost), draining",
  ],
  ["that is cordoned", host(READY, cordoned), "Cordoned", "idle", "Ready, cordoned"],
  ["that is flapping", host({ ...READY, Flapping: "True x" }), "Flapping", "warn", "Ready, flapping"],
  ["that drains", host(READY, { ...drain, ...cordoned }), "Draining", "busy", "Ready, draining, cordoned"],
  [
    "that drains and does not start",
    host({ ...READY, Ready: "False NoRuntime" }, drain),
    "Draining",
    "busy",
    "Not ready (NoRuntime), draining",
  ],
  [
    "whose drain is blocked",
    host({ ...READY, Drained: "False DrainBlocked" }, drain),
    "Drain blocked",
    "warn",
    "Ready, drain blocked",
  ],
  [
    "that is drained and off",
    host({ ...AWAY, Drained: "True x" }, drain),
    "Drained",
    "idle",
    "Unreachable (LeaseExpired), drained",
  ],
])("a host %s", (_case, object, word, level, line) => {
  expect({ ...stateOfHost(object), line: hostText(object) }).toEqual({ word, level, line });
});

test("a host whose Lease is old without a word of the controller is stale", () => {
  expect(stateOfHost(host(READY), true)).toEqual({ word: "Stale", level: "warn" });
  expect(stateOfHost(host(AWAY), true).word).toBe("Unreachable");
});

test.each([
  [{ os: "darwin", osVersion: "26.1" }, "macOS 26.1"],
  [{ os: "darwin" }, "macOS"],
  [{ os: "linux", osVersion: "Ubuntu 24.04.2 LTS" }, "Ubuntu 24.04.2 LTS"],
  [{ os: "linux" }, "linux"],
  [{}, ""],
])("%o is %s", (info, text) => {
  expect(osText({ status: { info } } as unknown as Host)).toBe(text);
});
