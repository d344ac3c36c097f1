/** A host whose agent and controller reach the API server through a proxy that can fail. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "vitest";
import { livingEngines } from "../bed/engines.ts";
import { model, serviceAnywhere } from "../bed/manifests.ts";
import { type Network, openNetwork } from "../bed/network.ts";
import { startFleet, type TestFleet } from "../bed/test-fleet.ts";
import { type PrivateCluster, startCluster } from "../cluster/cluster.ts";
import { WITHOUT_PODS } from "../cluster/planes.ts";
import { type ProxiedCluster, proxyCluster } from "../fixtures/fault-proxy.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";

export interface AwayFleet extends AsyncDisposable {
  readonly cluster: PrivateCluster;
  readonly network: Network;
  readonly proxy: ProxiedCluster;
  readonly farm: TestFleet;
  /** The audit log of the API server, which removes nothing from it. */
  readonly auditLog: string;
  /** Its pid. */
  readonly onlyEngine: () => number;
}

/** Resolves once the service `chat` is Ready. */
export async function startAwayFleet(): Promise<AwayFleet> {
  await using stack = new AsyncDisposableStack();
  const dir = mkdtempSync(path.join(tmpdir(), "metalbridge-away-"));
  stack.defer(() => rmSync(dir, { recursive: true, force: true }));
  const policy = path.join(dir, "audit-policy.json");
  const auditLog = path.join(dir, "audit.log");
  const omitStages = ["RequestReceived", "ResponseStarted"];
  const rules = [{ level: "Metadata", omitStages }];
  writeFileSync(policy, JSON.stringify({ apiVersion: "audit.k8s.io/v1", kind: "Policy", rules }));
  const apiServerArgs = [`--audit-policy-file=${policy}`, `--audit-log-path=${auditLog}`];
  const cluster = stack.use(await startCluster({ controllerManager: WITHOUT_PODS, dir, apiServerArgs }));
  const network = stack.use(await openNetwork(["station"]));
  const proxy = stack.use(await proxyCluster(cluster.kubeconfig, cluster.dir));
  // This machine's own word would leave no room: what counts is the operator's, in the Host.
  const config = { memory: { budget: "1Mi" }, disk: { reserve: 0 } };
  const { kubeconfig } = proxy;
  const farm = stack.use(await startFleet({ kubeconfig, address: network.gateway, agents: [{ config }] }));
  const source = path.join(farm.modelsDir, "chat.gguf");
  await writeTinyGguf(source);
  await cluster.objects.patch("", `host/${farm.hostName}`, { spec: { memory: { gpuBudget: "8Gi" } } });
  await cluster.objects.apply(model("chat", source), serviceAnywhere("chat"));
  await cluster.objects.until("default", "isvc/chat", ({ status }) => expect(status?.phase).toBe("Ready"));
  const kept = stack.move();
  return {
    cluster,
    network,
    proxy,
    farm,
    auditLog,
    onlyEngine: () => {
      const [pid, ...more] = livingEngines(farm.stateDir).values();
      expect(more).toEqual([]);
      if (pid === undefined) throw new Error("no engine lives");
      return pid;
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}
