import { expect, test } from "vitest";
import { type Host, hostSchema } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { testGoldens } from "../../test/golden/golden.ts";
import { judgeHost } from "./fleet.ts";
import type { HostResult } from "./one-host.ts";
import { planUpgrade, type UpgradeTarget } from "./plan.ts";
import { failureOf, renderLines, renderPlan, type UpgradeHostLine, upgradeLines } from "./report.ts";

interface ShortInput {
  readonly version: string;
  /** By default that of the hosts. */
  readonly platforms?: readonly string[];
  readonly batch?: number;
  readonly allowDowngrade?: boolean;
  readonly attempted?: readonly string[];
  /** `<name> <version> [platform] [unreachable]` */
  readonly hosts: readonly string[];
  /** `<service> <host> [phase]` */
  readonly replicas?: readonly string[];
}

const PLATFORM = "darwin-arm64";

function condition(type: string, status = "True"): object {
  return { type, status, reason: "Because", message: "so it is", lastTransitionTime: "2026-01-01T00:00:00Z" };
}

function host(line: string): Host {
  const [name, agentVersion = "", ...rest] = line.split(" ");
  const [os, arch] = (rest.find((word) => word.includes("-")) ?? PLATFORM).split("-");
  const reachable = condition("Reachable", rest.includes("unreachable") ? "False" : "True");
  return hostSchema.parse({
    metadata: { name, uid: name },
    status: { info: { agentVersion, os, arch }, conditions: [reachable, condition("Ready")] },
  });
}

function replica(line: string, status: object = {}): InferenceReplica {
  const [service = "", hostName = "", phase = "Ready"] = line.split(" ");
  const name = `${service}-on-${hostName}`;
  return {
    metadata: { name, namespace: "team", uid: name },
    spec: { template: { hostName, serviceName: service, serviceUid: service } },
    status: { phase, pid: 7, startedAt: "2026-01-01T00:00:00Z", ...status },
  } as unknown as InferenceReplica;
}

testGoldens("cli/upgrade/golden", (input: ShortInput) => {
  const { version, platforms = [PLATFORM], batch, allowDowngrade = false, attempted } = input;
  const replicas = (input.replicas ?? []).map((line) => replica(line));
  const plan = planUpgrade(
    input.hosts.map(host),
    replicas,
    { version, platforms },
    { batch, allowDowngrade },
    attempted,
  );
  return {
    batches: plan.batches.map((batch) =>
      batch.map((target) => `${target.host} (${target.replicas.length} ready)`),
    ),
    leftOut: plan.leftOut.map(({ host, because }) => `${host}: ${because}`),
    refusals: plan.refusals.map(({ code, message }) => `${code}: ${message}`),
    printed: renderPlan(plan, version).split("\n"),
  };
});

const TARGET: UpgradeTarget = {
  host: "mac-1",
  from: "0.1.0",
  platform: PLATFORM,
  wasReady: true,
  replicas: [{ key: "team/chat", uid: "chat-on-mac-1", pid: 7, startedAt: "2026-01-01T00:00:00Z" }],
};

test.each([
  ["its version and its replica are there", "mac-1 0.2.0", [replica("chat mac-1")], "healthy"],
  ["a replica that has left is not waited for", "mac-1 0.2.0", [], "healthy"],
  ["the old version", "mac-1 0.1.0", [replica("chat mac-1")], "waiting"],
  ["no renewal of the Lease", "mac-1 0.2.0 unreachable", [replica("chat mac-1")], "waiting"],
  ["a replica that is not Ready", "mac-1 0.2.0", [replica("chat mac-1 Starting")], "waiting"],
  ["another process", "mac-1 0.2.0", [replica("chat mac-1", { pid: 8 })], "failed"],
  [
    "the same pid, started again",
    "mac-1 0.2.0",
    [replica("chat mac-1", { startedAt: "2026-01-02T00:00:00Z" })],
    "failed",
  ],
])("a host is judged by what it reports: %s", (_, line, replicas, at) => {
  expect(judgeHost(host(line), replicas, TARGET, "0.2.0")).toMatchObject({ at });
});

test("a host without a Host has failed; a host that was not Ready does not have to be", () => {
  expect(judgeHost(undefined, [], TARGET, "0.2.0")).toMatchObject({ at: "failed" });
  const { conditions, ...status } = host("mac-1 0.2.0").status ?? {};
  const reachable = { ...host("mac-1 0.2.0"), status: { ...status, conditions: conditions?.slice(0, 1) } };
  expect(judgeHost(reachable, [], TARGET, "0.2.0")).toMatchObject({ why: "it has no condition Ready" });
  expect(judgeHost(reachable, [], { ...TARGET, wasReady: false }, "0.2.0")).toMatchObject({ at: "healthy" });
});

test("the report names each host, the step that failed and the end of its standard error", () => {
  const hosts = ["mac-1 0.1.0", "mac-2 0.1.0", "mac-3 0.1.0", "mac-4 0.2.0", "mac-5 0.1.0 unreachable"];
  const wanted = { version: "0.2.0", platforms: [PLATFORM] };
  const first = planUpgrade(hosts.map(host), [], wanted, { allowDowngrade: false });
  const failed = {
    ...({ at: "failed", step: "upgrade", code: "UpgradeRolledBack" } as const),
    message: "version 0.2.0 does not serve",
    tail: "one\ntwo",
  };
  const results = new Map<string, HostResult>([
    ["mac-1", { at: "upgraded" }],
    ["mac-2", failed],
  ]);
  const lines = upgradeLines(first, { results, last: first });
  expect(renderLines(lines, "0.2.0").split("\n")).toEqual([
    "HOST   STATE        BEFORE  NOTE",
    "mac-1  upgraded     0.1.0   runs 0.2.0",
    "mac-2  failed       0.1.0   upgrade: UpgradeRolledBack; runs 0.1.0 again",
    "mac-3  not started  0.1.0",
    "mac-4  current      0.2.0   already ran 0.2.0",
    "mac-5  unreachable  0.1.0   its agent does not renew its Lease",
  ]);
  expect(failureOf(lines, "0.2.0")).toMatchObject({
    code: "UpgradeStopped",
    message:
      "2 of 5 hosts run 0.2.0; mac-2, step upgrade: UpgradeRolledBack: version 0.2.0 does not serve\n  | one\n  | two",
  });
  const without = (...ats: readonly UpgradeHostLine["at"][]) => lines.filter(({ at }) => !ats.includes(at));
  expect(failureOf(without("failed"), "0.2.0")?.message).toContain("interrupted");
  expect(failureOf(without("failed", "not started"), "0.2.0")?.code).toBe("UpgradeIncomplete");
  expect(failureOf(without("failed", "not started", "unreachable"), "0.2.0")).toBeUndefined();
});
