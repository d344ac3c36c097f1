/** An agent with the rights of a host's own account, and no other, does all its work. */
import path from "node:path";
import { expect, test } from "vitest";
import { startAgent } from "../../agent/fixtures/agent.ts";
import { NAMESPACE_HOSTS } from "../../src/api/group.ts";
import { giveIdentity } from "../bed/identity.ts";
import { until } from "../bed/until.ts";
import { sharedCluster } from "../cluster/cluster.ts";
import { findLlamaServer } from "../fixtures/llama-server.ts";
import { manifest, withFields } from "../fixtures/manifests.ts";
import { createBench } from "../replicas/bench.ts";
import { documentedRules } from "./agent-rights.ts";

const llamaServer = findLlamaServer();

test("the table of rights is read", () => {
  expect(documentedRules()).toContainEqual({
    apiGroups: ["coordination.k8s.io"],
    resources: ["leases"],
    verbs: ["get", "create", "update"],
    namespace: "metalbridge-hosts",
  });
  expect(documentedRules().length).toBeGreaterThan(5);
});

test.skipIf(llamaServer === undefined)(
  "the rights of a host's account are enough for a whole life of an engine",
  async () => {
    const cluster = sharedCluster();
    const { objects } = cluster;
    await using namespace = await cluster.namespace();
    await using bench = await createBench(cluster.kubeconfig, namespace.name);
    const { hostName, root } = bench.place;
    const kubeconfig = path.join(root, "kubeconfig");
    await giveIdentity(cluster, hostName, kubeconfig);
    await objects.create(withFields(manifest("Host", hostName), { "spec.addresses": [bench.address] }));
    await using agent = await startAgent({
      kubeconfig,
      hostName,
      modelRoots: [root],
      llamaServer: [llamaServer ?? ""],
      addresses: [bench.address],
    });
    await until(async () => expect(await agent.ask("/readyz")).toBe("200 ok\n"));

    const metadata = { name: "keys", namespace: namespace.name };
    const rbac = "rbac.authorization.k8s.io";
    await objects.apply(
      { apiVersion: "v1", kind: "Secret", metadata, stringData: { key: "sesame" } },
      // The controller's work: the right to the Secrets that the host's replicas name.
      {
        apiVersion: `${rbac}/v1`,
        kind: "Role",
        metadata,
        rules: [{ apiGroups: [""], resources: ["secrets"], resourceNames: ["keys"], verbs: ["get"] }],
      },
      {
        apiVersion: `${rbac}/v1`,
        kind: "RoleBinding",
        metadata,
        roleRef: { apiGroup: rbac, kind: "Role", name: "keys" },
        subjects: [{ kind: "ServiceAccount", name: hostName, namespace: NAMESPACE_HOSTS }],
      },
    );
    await bench.createReplica("chat-0", (spec) => {
      Object.assign(spec.template, { auth: { secretName: "keys", key: "key" } });
    });
    const ready = await bench.untilPhase("chat-0", "Ready");
    expect((await bench.slice("chat-0"))?.endpoints).toMatchObject([{ conditions: { ready: true } }]);
    const refused = await fetch(`http://${bench.address}:${ready.status?.port}/v1/chat/completions`, {
      method: "POST",
      body: "{}",
    });
    expect(refused.status).toBe(401);
    await objects.until("", `host/${hostName}`, (host) =>
      expect(host?.status?.conditions).toContainEqual(
        expect.objectContaining({ type: "Ready", status: "True" }),
      ),
    );

    await bench.deleteReplica("chat-0");
    await until(async () => expect(await bench.replica("chat-0")).toBeUndefined());
    expect((await objects.events(namespace.name, "chat-0")).length).toBeGreaterThan(0);
    const forbidden = agent.lines.filter((line) => /forbidden/i.test(JSON.stringify(line)));
    expect(forbidden).toEqual([]);
    await agent.stop();
    await objects.remove("", `host/${hostName}`);
  },
);
