/** API server outage: the agent continues from its state on disk, even across its own restart, then reconciles once. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { silentLog } from "../../local/terminal-log.ts";
import { connect } from "../../src/kube/client/connect.ts";
import { LEASES } from "../../src/kube/kinds.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { livingEngines } from "../bed/engines.ts";
import { listOf } from "../bed/kubectl.ts";
import { model, serviceAnywhere } from "../bed/manifests.ts";
import { type Network, openNetwork, whyNoNetwork } from "../bed/network.ts";
import { startFleet, type TestFleet } from "../bed/test-fleet.ts";
import { until } from "../bed/until.ts";
import { type PrivateCluster, startCluster } from "../cluster/cluster.ts";
import { type ProxiedCluster, proxyCluster } from "../fixtures/fault-proxy.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";

const MINUTE = 60_000;
describeUnless(whyNoNetwork(), "an agent without its API server", () => {
  let cluster: PrivateCluster;
  let network: Network;
  let proxy: ProxiedCluster;
  let farm: TestFleet;

  beforeAll(async () => {
    const dir = mkdtempSync(path.join(tmpdir(), "metalbridge-away-"));
    const policy = path.join(dir, "audit-policy.json");
    const omitStages = ["RequestReceived", "ResponseStarted"];
    const rules = [{ level: "Metadata", omitStages }];
    writeFileSync(policy, JSON.stringify({ apiVersion: "audit.k8s.io/v1", kind: "Policy", rules }));
    const apiServerArgs = [`--audit-policy-file=${policy}`, `--audit-log-path=${auditLog(dir)}`];
    cluster = await startCluster({ controllerManager: true, dir, apiServerArgs });
    network = await openNetwork(["station"]);
    proxy = await proxyCluster(cluster.kubeconfig, cluster.dir);
    // This machine's own word would leave no room: what counts is the operator's, in the Host.
    const config = { memory: { budget: "1Mi" }, disk: { reserve: 0 } };
    farm = await startFleet({
      kubeconfig: proxy.kubeconfig,
      address: network.gateway,
      agents: [{ config }],
    });
    await writeTinyGguf(path.join(farm.modelsDir, "chat.gguf"));
    const patch = ["--type=merge", "-p", '{"spec":{"memory":{"gpuBudget":"8Gi"}}}'];
    await until(() => cluster.kubectl(["patch", "host", farm.hostName, ...patch]));
    await cluster.kubectl(
      ["apply", "-f", "-"],
      listOf(model("chat", path.join(farm.modelsDir, "chat.gguf")), serviceAnywhere("chat")),
    );
    await cluster.kubectl(["wait", "isvc/chat", "--for=jsonpath={.status.phase}=Ready", "--timeout=60s"], {
      timeoutMs: 70_000,
    });
  });

  afterAll(async () => {
    await farm?.[Symbol.asyncDispose]();
    await proxy?.[Symbol.asyncDispose]();
    await network?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
    if (cluster !== undefined) rmSync(cluster.dir, { recursive: true, force: true });
  });

  const replica = async () => {
    const list = JSON.parse(await cluster.kubectl(["get", "irep", "-o", "json"]));
    expect(list.items).toHaveLength(1);
    return list.items[0];
  };
  const onlyEngine = (): number => {
    const [pid, ...more] = livingEngines(farm.stateDir).values();
    expect(more).toEqual([]);
    if (pid === undefined) throw new Error("no engine lives");
    return pid;
  };

  it("adopts, restarts what crashes, and afterwards writes what changed and nothing else", async () => {
    const before = await replica();
    await cluster.stopApiServer();
    await farm.controller().kill("SIGTERM");
    await farm.agent().kill("SIGKILL");
    farm.restartAgent();
    await until(() => expect(farm.agent().log()).toMatch(/engine adopted[\s\S]*agent started/));
    expect(onlyEngine()).toBe(before.status.pid);
    process.kill(before.status.pid, "SIGKILL");
    const after = await until(() => {
      const pid = onlyEngine();
      expect(pid).not.toBe(before.status.pid);
      return pid;
    });
    const url = `http://${network.gateway}:${before.status.port}/v1/chat/completions`;
    const body = JSON.stringify({ messages: [{ role: "user", content: "Are you there?" }], max_tokens: 4 });
    await until(async () => expect((await fetch(url, { method: "POST", body })).status).toBe(200));

    rmSync(auditLog(cluster.dir));
    const backAt = performance.now();
    await cluster.startApiServer();
    await until(async () => {
      const { status } = await replica();
      expect(status).toMatchObject({ phase: "Ready", pid: after, restarts: 1, port: before.status.port });
    });
    await settled(cluster);
    const asked = await until(() => agentRequests(cluster));
    farm.restartController();
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

  it(
    "stays reachable through 25 s of a network that swallows everything, and follows at once afterwards",
    async () => {
      const { status } = await replica();
      using renewals = await watchRenewals(cluster.kubeconfig, farm.hostName);
      await until(() => expect(renewals.moments.length).toBeGreaterThan(1));
      // Shortly before the next renewal: the worst moment.
      await pause(7_000 - (performance.now() - (renewals.moments.at(-1) ?? 0)));
      const before = renewals.moments.length;
      proxy.stall(true);
      await pause(25_000);
      expect(onlyEngine()).toBe(status.pid);
      proxy.stall(false); // what was open stays dead
      await until(() => expect(renewals.moments.length).toBeGreaterThan(before));
      const gaps = renewals.moments.slice(1).map((at, index) => at - (renewals.moments[index] ?? 0));
      process.stdout.write(`longest gap between renewals: ${Math.round(Math.max(...gaps))} ms\n`);
      expect(Math.max(...gaps)).toBeLessThan(39_000);
      const host = JSON.parse(await cluster.kubectl(["get", "host", farm.hostName, "-o", "json"]));
      const reachable = host.status.conditions.find(({ type }: { type: string }) => type === "Reachable");
      expect(reachable).toMatchObject({ status: "True" });
      await cluster.kubectl(["scale", "isvc/chat", "--replicas=0"]);
      await until(() => expect(livingEngines(farm.stateDir).size).toBe(0));
    },
    5 * MINUTE,
  );
});

/** The moments at which a host's Lease changed. */
async function watchRenewals(kubeconfigPath: string, host: string) {
  const connection = await connect({ kubeconfigPath });
  const ending = new AbortController();
  const moments: number[] = [];
  startReflector({
    connection,
    clock: systemClock,
    log: silentLog,
    signal: ending.signal,
    kind: LEASES,
    namespace: "metalbridge-hosts",
    fieldSelector: `metadata.name=${host}`,
    onChange: () => moments.push(performance.now()),
  });
  const stop = () => {
    ending.abort();
    connection.close();
  };
  return { moments, [Symbol.dispose]: stop };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/**
 * What the agent asked for, Leases apart, by verb and resource ("list hosts"), as the API server's own audit has it. What
 * was refused does not count: a server that has just started refuses requests until its storage and RBAC are ready.
 */
function agentRequests(cluster: PrivateCluster): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const line of readFileSync(auditLog(cluster.dir), "utf8").trim().split("\n")) {
    const { userAgent, verb, objectRef, responseStatus } = JSON.parse(line);
    if (!String(userAgent).startsWith("metalbridge-agent") || objectRef?.resource === "leases") continue;
    if (responseStatus?.code >= 400) continue;
    const request = `${verb} ${objectRef?.resource}`;
    counts[request] = (counts[request] ?? 0) + 1;
  }
  return counts;
}

/** Of one verb, by resource. */
function requestsOf(asked: Record<string, number>, verb: string): readonly (readonly [string, number])[] {
  return Object.entries(asked).filter(([request]) => request.startsWith(`${verb} `));
}

function auditLog(dir: string): string {
  return path.join(dir, "audit.log");
}

/** The agent asks for nothing for three seconds. */
async function settled(cluster: PrivateCluster): Promise<void> {
  const all = () => JSON.stringify(agentRequests(cluster));
  await until(async () => {
    const before = all();
    await pause(3_000);
    expect(all()).toBe(before);
  });
}
