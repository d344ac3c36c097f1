import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, it, vi } from "vitest";
import { type PrivateCluster, sharedCluster, startCluster } from "../../../test/cluster/cluster.ts";
import { quietLog } from "../../../test/cluster/quiet-log.ts";
import { CONFIG_MAPS, LEASES } from "../kinds.ts";
import { systemClock } from "../system-clock.ts";
import { startReflector } from "../watch/reflector.ts";
import { connect } from "./connect.ts";
import { createClient } from "./create-client.ts";

const within = { timeout: 60_000, interval: 20 };

async function kubeconfigOfTokenFile(cluster: PrivateCluster): Promise<string> {
  const admin = await readFile(cluster.kubeconfig, "utf8");
  const authority = admin
    .split("\n")
    .find((line) => line.includes("certificate-authority"))
    ?.trim();
  const file = path.join(cluster.dir, "host.kubeconfig");
  const text = `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
users: [{name: u, user: {tokenFile: token}}]
clusters:
- name: k
  cluster:
    server: ${cluster.url}
    ${authority}
`;
  await writeFile(file, text);
  return file;
}

it("a revoked credential gives 401, for a reflector too; a new token in the file ends that without a restart", async () => {
  await using cluster = await startCluster({ crds: false });
  const { objects } = cluster;
  const issueToken = async () => {
    // Repeated where it got halfway.
    const metadata = { name: "host", namespace: "default" };
    const account = { apiVersion: "v1", kind: "ServiceAccount", metadata };
    await objects.apply(account);
    return objects.token("default", "host");
  };
  const tokenFile = path.join(cluster.dir, "token");
  await writeFile(tokenFile, await issueToken());
  const connection = await connect({ kubeconfigPath: await kubeconfigOfTokenFile(cluster) });
  const client = createClient(connection);
  expect(await client.list(LEASES)).toMatchObject({
    error: {
      kind: "forbidden",
      status: 403,
      message: expect.stringContaining("system:serviceaccount:default:host"),
    },
  });
  const rbac = "rbac.authorization.k8s.io";
  await objects.create({
    ...{ apiVersion: `${rbac}/v1`, kind: "ClusterRoleBinding", metadata: { name: "host" } },
    roleRef: { apiGroup: rbac, kind: "ClusterRole", name: "cluster-admin" },
    subjects: [{ kind: "ServiceAccount", name: "host", namespace: "default" }],
  });
  await vi.waitFor(async () => expect(await client.list(LEASES)).toMatchObject({ ok: true }), within);

  const ending = new AbortController();
  const failures: string[] = [];
  const reflector = startReflector({
    connection,
    kind: CONFIG_MAPS,
    namespace: "default",
    clock: systemClock,
    log: quietLog,
    signal: ending.signal,
    onChange: () => {},
    onFailure: ({ kind }) => failures.push(kind),
  });
  await reflector.whenSynced();
  await objects.remove("default", "serviceaccount/host");
  await vi.waitFor(
    async () =>
      expect(await client.list(LEASES)).toMatchObject({ error: { kind: "unauthorized", status: 401 } }),
    within,
  );
  cluster.killApiServer(); // an open watch outlives its credential; a new one does not begin
  await vi.waitFor(() => expect(failures).toContain("unauthorized"), { ...within, timeout: 180_000 });

  await writeFile(tokenFile, await vi.waitFor(issueToken, within));
  await vi.waitFor(async () => expect(await client.list(LEASES)).toMatchObject({ ok: true }), within);
  await objects.create({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "seen" } });
  await vi.waitFor(() => expect(reflector.get("default/seen")).toBeDefined(), { ...within, timeout: 60_000 });
  ending.abort();
  connection.close();
});

it("a kubeconfig that leads nowhere is followed once it leads to a server, without a restart", async () => {
  const right = await readFile(sharedCluster().kubeconfig, "utf8");
  const dir = await mkdtemp(path.join(tmpdir(), "metalbridge-kubeconfig-"));
  const file = path.join(dir, "kubeconfig");
  await writeFile(file, right.replace(/(server: .*:)\d+/, "$11"));
  const connection = await connect({ kubeconfigPath: file });
  const client = createClient(connection);
  expect(await client.list(LEASES)).toMatchObject({ error: { kind: "unreachable" } });
  expect(connection.server).toMatch(/:1$/);
  await writeFile(file, right);
  await vi.waitFor(async () => expect(await client.list(LEASES)).toMatchObject({ ok: true }), within);
  expect(connection.server).not.toMatch(/:1$/);
  connection.close();
  await rm(dir, { recursive: true });
});
