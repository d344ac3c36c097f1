/** Accounts without the right to Roles, as the chart's with rbac.secrets=false. */
import path from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { HOSTS } from "../../../src/api/kinds.ts";
import type { Model } from "../../../src/api/model.ts";
import { createGrouping } from "../../../src/cluster/grouping.ts";
import { connect } from "../../../src/kube/client/connect.ts";
import { createClient } from "../../../src/kube/client/create-client.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";
import { startReflector } from "../../../src/kube/watch/reflector.ts";
import { writeAccountKubeconfig } from "../../../test/bed/identity.ts";
import { sharedCluster } from "../../../test/cluster/cluster.ts";
import { quietLog } from "../../../test/cluster/quiet-log.ts";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { startSecretAccess } from "./secret-access.ts";

const cluster = sharedCluster();

test("without the right to Roles no key is passed again on a timer, and once it is granted all are", async () => {
  await using ns = await cluster.namespace();
  await using folder = await temporaryFolder();
  const { objects } = cluster;
  const file = path.join(folder.path, "kubeconfig");
  const account = { name: "bare", namespace: ns.name };
  await objects.create({ apiVersion: "v1", kind: "ServiceAccount", metadata: account });
  await writeAccountKubeconfig(cluster, { name: "bare", namespace: ns.name, file });
  const stop = new AbortController();
  const admin = await connect({ kubeconfigPath: cluster.kubeconfig });
  const connection = await connect({ kubeconfigPath: file });
  onTestFinished(() => {
    stop.abort();
    for (const one of [admin, connection]) one.close();
  });
  const common = { clock: systemClock, log: quietLog, signal: stop.signal, startReflector };
  const hosts = startReflector<Host>({ ...common, connection: admin, kind: HOSTS, onChange: () => {} });
  await hosts.whenSynced();
  const replicasOfHost = createGrouping<InferenceReplica>(({ spec }) => [spec.template.hostName]);
  const template = { hostName: "mac-1", auth: { secretName: "keys" }, model: { source: "" } };
  const spec = { template };
  const replica = { metadata: { name: "chat-1", namespace: ns.name }, spec } as InferenceReplica;
  replicasOfHost.note(`${ns.name}/chat-1`, replica, undefined);
  const changed = new Set<string>();
  const access = await startSecretAccess({
    ...common,
    connection,
    client: createClient(connection),
    watches: { hosts, replicasOfHost, prefetchedModels: createGrouping<Model>(() => []) },
    onChange: (key) => changed.add(key),
  });
  const key = `${ns.name}/mac-1`;
  expect(access.keys()).toEqual([key]);
  expect(await access.reconcile(key)).toBeUndefined();
  expect(access.watches()).toEqual([]);
  await objects.create({
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRoleBinding",
    metadata: { name: ns.name },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
    subjects: [{ kind: "ServiceAccount", ...account }],
  });
  onTestFinished(() => objects.remove("", `clusterrolebinding/${ns.name}`));
  await vi.waitFor(() => expect([...changed]).toEqual([key]), { timeout: 60_000, interval: 50 });
  expect(access.watches()).toHaveLength(2);
});
