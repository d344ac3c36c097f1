/** The steps of one host, and what remains of a failure when the next call fails too. */
import { expect, test } from "vitest";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { type HostUpgradePorts, upgradeHost } from "./one-host.ts";
import type { UpgradeTarget } from "./plan.ts";

const TARGET: UpgradeTarget = {
  host: "mac-1",
  from: "0.1.0",
  platform: "darwin-arm64",
  wasReady: true,
  replicas: [],
};

function portsWith(change: Partial<HostUpgradePorts>) {
  const calls: string[] = [];
  const ports: HostUpgradePorts = {
    drain: async () => calls.push("drain") > 0,
    uncordon: async () => void calls.push("uncordon"),
    upgrade: async () => {
      calls.push("upgrade");
      return { at: "upgraded" };
    },
    untilHealthy: async () => calls.push("healthy") > 0,
    report: () => undefined,
    ...change,
  };
  return { ports, calls };
}

const unreachable = async () => {
  throw new MetalbridgeError("ApiUnreachable", "no route to the API server");
};
const rolledBack = {
  at: "failed",
  step: "upgrade",
  code: "UpgradeRolledBack",
  message: "version 0.2.0 does not serve",
  tail: "one",
} as const;

test("a host is drained, upgraded, healthy and uncordoned", async () => {
  const { ports, calls } = portsWith({});
  expect(await upgradeHost(ports, TARGET, true)).toEqual({ at: "upgraded" });
  expect(calls).toEqual(["drain", "upgrade", "healthy", "uncordon"]);
});

test("a failed upgrade keeps its step, code and output when the host cannot be uncordoned", async () => {
  const { ports } = portsWith({ upgrade: async () => rolledBack, uncordon: unreachable });
  expect(await upgradeHost(ports, TARGET, true)).toEqual({
    at: "failed",
    step: "upgrade",
    code: "UpgradeRolledBack",
    message:
      "version 0.2.0 does not serve; it stays drained (no route to the API server): metalbridge uncordon mac-1",
    tail: "one",
  });
});

test("a drain that did not finish keeps its code when the host cannot be uncordoned", async () => {
  const drain = async () => {
    throw new MetalbridgeError("DrainNotFinished", "2 replicas are left");
  };
  const { ports } = portsWith({ drain, uncordon: unreachable });
  expect(await upgradeHost(ports, TARGET, true)).toEqual({
    at: "failed",
    step: "drain",
    code: "DrainNotFinished",
    message: "2 replicas are left; it stays drained (no route to the API server): metalbridge uncordon mac-1",
  });
});

test("a host whose previous version does not start either stays drained", async () => {
  const { ports, calls } = portsWith({ upgrade: async () => ({ ...rolledBack, code: "RollbackFailed" }) });
  expect(await upgradeHost(ports, TARGET, true)).toMatchObject({ at: "failed", code: "RollbackFailed" });
  expect(calls).toEqual(["drain"]);
});
