/** Requests to join, judged: limit, expiry, names, addresses, machines. */
import { expect, test } from "vitest";
import { type JoinGroup, matchesPattern, readJoinGroup } from "../../../src/api/access/join-group.ts";
import { ANNOTATION_JOIN_GROUP, ANNOTATION_JOIN_REQUEST, ANNOTATION_JOINED } from "../../../src/api/group.ts";
import { type Host, hostSchema } from "../../../src/api/host.ts";
import { type HostJoinRequest, hostJoinRequestSchema } from "../../../src/api/host-join-request.ts";
import { type JoinObserved, planJoin } from "./plan.ts";

const NOW = Date.parse("2026-03-01T12:00:00Z");
const KEY = "ab".repeat(32);
const HOUR_MS = 3_600_000;

const GROUP: JoinGroup = {
  limit: 2,
  expiresAt: "2026-03-01T13:00:00Z",
  approve: "auto",
  addresses: ["10.0.0.0/24", "fd00::/64"],
  namePattern: "mac-*",
};

interface Case {
  readonly spec?: Partial<HostJoinRequest["spec"]>;
  readonly status?: HostJoinRequest["status"];
  readonly group?: Partial<JoinGroup>;
  readonly joined?: NonNullable<JoinObserved["account"]>["joined"];
  readonly hosts?: readonly Host[];
}

function plan({ spec, status, group, joined = {}, hosts = [] }: Case, nowMs = NOW) {
  const request = hostJoinRequestSchema.parse({
    metadata: { name: KEY, namespace: "metalbridge-join" },
    spec: { hostName: "mac-1", group: "studio", addresses: ["10.0.0.1"], machineId: "m-1", ...spec },
    status,
  });
  return planJoin({ request, account: { group: { ...GROUP, ...group }, joined }, hosts }, nowMs);
}

function host(name: string, addresses: readonly string[], machineId?: string, annotations = {}): Host {
  const status = machineId === undefined ? undefined : { info: { machineId } };
  return hostSchema.parse({ metadata: { name, annotations }, spec: { addresses }, status });
}

const admitted = (...names: string[]) => Object.fromEntries(names.map((name) => [name, { request: "x" }]));

test("a request that the group allows is admitted", () => {
  expect(plan({})).toEqual({ do: "admit" });
  expect(plan({ spec: { addresses: ["10.0.0.1", "fd00::7"] } })).toEqual({ do: "admit" });
  expect(plan({ group: { addresses: [] }, spec: { addresses: ["192.168.1.1"] } })).toEqual({ do: "admit" });
  expect(plan({ joined: admitted("mac-2") })).toEqual({ do: "admit" });
  expect(plan({ group: { approve: "manual" }, spec: { approval: "Approved" } })).toEqual({ do: "admit" });
});

test.each<readonly [string, Case, string]>([
  ["a name outside the pattern", { spec: { hostName: "pc-1" } }, "JoinNotAllowed"],
  ["an address outside", { spec: { addresses: ["10.0.0.1", "10.0.1.1"] } }, "JoinNotAllowed"],
  ["an address of the other family", { spec: { addresses: ["fd01::1"] } }, "JoinNotAllowed"],
  ["the name of a Host", { hosts: [host("mac-1", ["10.0.0.7"])] }, "JoinNameTaken"],
  [
    "the name of a Host that another request has made",
    { hosts: [host("mac-1", ["10.0.0.7"], "m-1", { [ANNOTATION_JOIN_REQUEST]: "cd".repeat(32) })] },
    "JoinNameTaken",
  ],
  ["a machine that is a Host", { hosts: [host("mac-2", ["10.0.0.2"], "m-1")] }, "JoinMachineKnown"],
  [
    "a machine that was admitted and has reported nothing yet",
    {
      hosts: [host("mac-2", ["10.0.0.2"])],
      joined: { "mac-2": { request: "x", machineId: "m-1" } },
    },
    "JoinMachineKnown",
  ],
  ["the address of a Host", { hosts: [host("mac-2", ["10.0.0.1"])] }, "JoinAddressTaken"],
  [
    "the address of a Host in another notation",
    { spec: { addresses: ["fd00::1"] }, hosts: [host("mac-2", ["fd00:0:0::1"])] },
    "JoinAddressTaken",
  ],
  ["one more than the limit", { joined: admitted("mac-2", "mac-3") }, "JoinLimitReached"],
  [
    "one more than the limit that was approved",
    { group: { approve: "manual" }, spec: { approval: "Approved" }, joined: admitted("mac-2", "mac-3") },
    "JoinLimitReached",
  ],
  ["an answer of an administrator", { spec: { approval: "Rejected" } }, "JoinDeclined"],
])("%s is rejected", (_, given, reason) => {
  expect(plan(given)).toMatchObject({ do: "reject", reason });
});

test("a message names the Host and what to do", () => {
  const renamed = plan({ hosts: [host("mac-2", ["10.0.0.2"], "m-1")] });
  expect(renamed).toMatchObject({
    message: expect.stringMatching(/this machine is Host mac-2; .*host add mac-2.*host remove mac-2/),
  });
  expect(plan({ hosts: [host("mac-1", ["10.0.0.2"], "m-1")] })).toMatchObject({
    message: expect.stringContaining("this machine is Host mac-1 already"),
  });
});

test("a network that several hosts share does not reserve its addresses, and a removed host keeps its place", () => {
  expect(plan({ hosts: [host("mac-2", ["10.0.0.0/24"])] })).toEqual({ do: "admit" });
  expect(plan({ joined: admitted("mac-1", "mac-2") })).toEqual({ do: "admit" });
});

test("a pass that was interrupted after it created the Host is continued", () => {
  const own = host("mac-1", ["10.0.0.1"], undefined, { [ANNOTATION_JOIN_REQUEST]: KEY });
  expect(plan({ hosts: [own], joined: admitted("mac-1", "mac-2") })).toEqual({ do: "admit" });
});

test("a request with the key of a Host whose agent has reported is rejected: a new token would end the Host's credential", () => {
  const own = host("mac-1", ["10.0.0.1"], "m-1", { [ANNOTATION_JOIN_REQUEST]: KEY });
  const spec = { machineId: undefined };
  expect(plan({ spec, hosts: [own], joined: admitted("mac-1") })).toMatchObject({
    do: "reject",
    reason: "JoinNameTaken",
  });
});

test("a request to a group with manual approval waits, and is checked again when the token expires at the latest", () => {
  const group = { approve: "manual" } as const;
  const wait = (leftMs: number) => plan({ group }, Date.parse(GROUP.expiresAt) - leftMs);
  expect(wait(HOUR_MS)).toMatchObject({ do: "wait", recheckAfterMs: 60_000 });
  expect(wait(30_000)).toMatchObject({ do: "wait", recheckAfterMs: 30_000 });
  expect(wait(1)).toMatchObject({ do: "wait", recheckAfterMs: 1 });
  for (const leftMs of [0, -1])
    expect(wait(leftMs)).toEqual({ do: "remove", because: "the token of its group has expired" });
});

test("an answered request stays for its retention time and is not judged again", () => {
  const at = (phase: "Admitted" | "Rejected", agoMs: number) => {
    const status = { phase, decidedAt: new Date(NOW - agoMs).toISOString() };
    const group = { expiresAt: "2026-03-08T12:00:00Z" };
    return plan({ status, group, joined: admitted("mac-2", "mac-3"), spec: { hostName: "pc" } }).do;
  };
  expect(at("Rejected", 599_000)).toBe("keep");
  expect(at("Rejected", 600_000)).toBe("remove");
  expect(at("Admitted", 24 * HOUR_MS - 1_000)).toBe("keep");
  expect(at("Admitted", 24 * HOUR_MS)).toBe("remove");
  expect(plan({ status: { phase: "Rejected" } }).do).toBe("remove");
});

test("requests of a revoked group are removed", () => {
  const request = hostJoinRequestSchema.parse({
    metadata: { name: KEY },
    spec: { hostName: "mac-1", group: "studio", addresses: ["10.0.0.1"] },
  });
  expect(planJoin({ request, account: undefined, hosts: [] }, NOW)).toMatchObject({ do: "remove" });
});

test.each([
  ["mac-*", "mac-07", true],
  ["mac-*", "mac-", true],
  ["mac-*", "xmac-1", false],
  ["mac-??", "mac-07", true],
  ["mac-??", "mac-7", false],
  ["*", "anything", true],
  ["*-mac", "my-mac", true],
  ["a*b*c", "a1b2c", true],
  ["mac-1", "mac-10", false],
  ["mac-.", "mac-1", false],
])("the pattern %s and the name %s: %s", (pattern, name, matches) => {
  expect(matchesPattern(name, pattern)).toBe(matches);
});

test("an account with invalid annotations admits no machine", () => {
  const read = (group: unknown, joined?: string) => {
    const annotations = {
      [ANNOTATION_JOIN_GROUP]: JSON.stringify(group),
      ...(joined !== undefined && { [ANNOTATION_JOINED]: joined }),
    };
    return readJoinGroup({ name: "studio", annotations });
  };
  expect(read(GROUP)).toEqual({ group: GROUP, joined: {} });
  for (const bad of [
    undefined,
    {},
    { ...GROUP, limit: 0 },
    { ...GROUP, limit: 1_001 },
    { ...GROUP, more: 1 },
  ])
    expect(read(bad)).toBeUndefined();
  for (const bad of ["", "[]", "{", '{"mac-1":1}']) expect(read(GROUP, bad)).toBeUndefined();
  expect(readJoinGroup({ name: "default" })).toBeUndefined();
});
