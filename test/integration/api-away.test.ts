/** API server outage: the agent continues from its state on disk, even across its own restart, then reconciles once. */
import { readFileSync, rmSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { whyNoNetwork } from "../bed/network.ts";
import { until } from "../bed/until.ts";
import { type AwayFleet, startAwayFleet } from "./away-fleet.ts";

describeUnless(whyNoNetwork(), "an agent without its API server", () => {
  let on: AwayFleet;

  beforeAll(async () => {
    on = await startAwayFleet();
  });

  afterAll(() => on?.[Symbol.asyncDispose]());

  const replica = async () => {
    const items = await on.cluster.objects.list(INFERENCE_REPLICAS);
    expect(items).toHaveLength(1);
    return items[0];
  };

  it("adopts, restarts what crashes, and afterwards writes what changed and nothing else", async () => {
    const before = await replica();
    await on.cluster.stopApiServer();
    await on.farm.controller().kill("SIGTERM");
    await on.farm.agent().kill("SIGKILL");
    on.farm.restartAgent();
    await until(() => expect(on.farm.agent().log()).toMatch(/engine adopted[\s\S]*agent started/));
    expect(on.onlyEngine()).toBe(before.status.pid);
    process.kill(before.status.pid, "SIGKILL");
    const after = await until(() => {
      const pid = on.onlyEngine();
      expect(pid).not.toBe(before.status.pid);
      return pid;
    });
    const url = `http://${on.network.gateway}:${before.status.port}/v1/chat/completions`;
    const body = JSON.stringify({ messages: [{ role: "user", content: "Are you there?" }], max_tokens: 4 });
    await until(async () => expect((await fetch(url, { method: "POST", body })).status).toBe(200));

    rmSync(on.auditLog);
    const backAt = performance.now();
    await on.cluster.startApiServer();
    await on.cluster.objects.until("default", "irep", ([{ status }]) =>
      expect(status).toMatchObject({ phase: "Ready", pid: after, restarts: 1, port: before.status.port }),
    );
    await until(() => expect(renewalsIn(on.auditLog)).toBeGreaterThan(1), { everyMs: 500 });
    const asked = agentRequests(on.auditLog);
    on.farm.restartController();
    const seen = `after the return: ${JSON.stringify(asked)}`;
    // Three copies, listed once each, or twice where the server has lost its history.
    expect(requestsOf(asked, "list").length, seen).toBeLessThanOrEqual(3);
    for (const [request, count] of requestsOf(asked, "list")) {
      expect(count, `${request}; ${seen}`).toBeLessThanOrEqual(2);
    }
    const total = (verb: string) => requestsOf(asked, verb).reduce((sum, [, count]) => sum + count, 0);
    // The replica's new process, and figures as they are measured: those of the host every 5 s.
    const measured = Math.ceil((performance.now() - backAt) / 5_000);
    for (const [request, count] of requestsOf(asked, "patch")) {
      const most = request === "patch hosts" ? 3 + measured : 3;
      expect(count, `${request}; ${seen}`).toBeLessThanOrEqual(most);
    }
    expect(total("create"), seen).toBeLessThanOrEqual(6);
    expect(total("update"), seen).toBe(0);
  });
});

/** What the agent asked for, Leases apart, by verb and resource ("list hosts"). */
function agentRequests(auditLog: string): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { verb, objectRef } of auditedOf(auditLog)) {
    if (objectRef?.resource === "leases") continue;
    const request = `${verb} ${objectRef?.resource}`;
    counts[request] = (counts[request] ?? 0) + 1;
  }
  return counts;
}

/** Of one verb, by resource. */
function requestsOf(asked: Record<string, number>, verb: string): readonly (readonly [string, number])[] {
  return Object.entries(asked).filter(([request]) => request.startsWith(`${verb} `));
}

/** How often the agent has renewed its Lease since: all that a return begins is done long before the second renewal. */
function renewalsIn(auditLog: string): number {
  const isRenewal = ({ verb, objectRef }: Audited) =>
    objectRef?.resource === "leases" && ["update", "patch"].includes(verb);
  return auditedOf(auditLog).filter(isRenewal).length;
}

interface Audited {
  readonly userAgent?: string;
  readonly verb: string;
  readonly objectRef?: { readonly resource: string };
  readonly responseStatus?: { readonly code: number };
}

/**
 * What the agent asked for, as the API server's own audit has it. What was refused does not count: a server that has just
 * started refuses requests until its storage and RBAC are ready.
 */
function auditedOf(auditLog: string): readonly Audited[] {
  const text = readFileSync(auditLog, "utf8");
  // The API server may be writing the last line.
  const lines = text
    .slice(0, text.lastIndexOf("\n") + 1)
    .trim()
    .split("\n");
  return lines
    .map((line) => JSON.parse(line) as Audited)
    .filter(({ userAgent }) => userAgent?.startsWith("metalbridge-agent"))
    .filter(({ responseStatus }) => (responseStatus?.code ?? 0) < 400);
}
