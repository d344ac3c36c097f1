/** Credentials that end, change and fail while an agent uses them. */
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, expect, it, onTestFinished, vi } from "vitest";
import { oneCluster, type PrivateCluster } from "../../../test/cluster/cluster.ts";
import { createTestAuthority, whyNoAuthority } from "../../../test/fixtures/test-authority.ts";
import { LEASES } from "../kinds.ts";
import type { KubeClient } from "../types.ts";
import { connect } from "./connect.ts";
import { createClient } from "./create-client.ts";

const within = { timeout: 60_000, interval: 50 };
const authority = whyNoAuthority() === undefined ? createTestAuthority() : undefined;
afterAll(() => authority?.remove());
const shared = oneCluster({
  crds: false,
  apiServerArgs: authority === undefined ? [] : [`--client-ca-file=${authority.certificateFile}`],
});

interface User {
  readonly [field: string]: unknown;
}

/** A kubeconfig in the cluster's folder for this user, relative names beside it. */
function kubeconfigFor(cluster: PrivateCluster, user: User): string {
  const known = readFileSync(cluster.kubeconfig, "utf8");
  const authority = /certificate-authority-data: *"?([^"\s]+)/.exec(known)?.[1];
  const entry = { server: cluster.url, "certificate-authority-data": authority };
  const file = path.join(cluster.dir, "user.kubeconfig");
  const config = {
    apiVersion: "v1",
    kind: "Config",
    "current-context": "c",
    contexts: [{ name: "c", context: { cluster: "k", user: "u" } }],
    users: [{ name: "u", user }],
    clusters: [{ name: "k", cluster: entry }],
  };
  writeFileSync(file, JSON.stringify(config));
  return file;
}

async function open(kubeconfigPath: string, timeoutMs = 10_000) {
  const connection = await connect({ kubeconfigPath });
  return { client: createClient(connection, { timeoutMs }), [Symbol.dispose]: () => connection.close() };
}

async function untilWorks(client: KubeClient): Promise<void> {
  await vi.waitFor(async () => expect(await client.list(LEASES)).toMatchObject({ ok: true }), within);
}

it.skipIf(authority === undefined)(
  "a client certificate that ran out is refused, and its successor is taken from the files without a restart",
  async () => {
    if (authority === undefined) return;
    const cluster = shared();
    const [cert, key] = [path.join(cluster.dir, "host.crt"), path.join(cluster.dir, "host.key")];
    const first = authority.issue("first", { organization: "system:masters", validSeconds: 20 });
    writeFileSync(cert, first.certificate);
    writeFileSync(key, first.key);
    using opened = await open(
      kubeconfigFor(cluster, { "client-certificate": "host.crt", "client-key": "host.key" }),
    );
    const { client } = opened;
    await untilWorks(client);
    await vi.waitFor(
      async () =>
        expect(await client.list(LEASES)).toMatchObject({ error: { kind: "unauthorized", status: 401 } }),
      { ...within, timeout: 60_000 },
    );
    // In two steps, as many tools do: for a moment the two do not belong together.
    const second = authority.issue("second", { organization: "system:masters" });
    writeFileSync(cert, second.certificate);
    expect(await client.list(LEASES)).toMatchObject({
      error: { kind: "unauthorized", reason: "CredentialUnavailable" },
    });
    writeFileSync(key, second.key);
    await untilWorks(client);
  },
);

/** A plugin that says what lies in `answer`, and counts its runs. */
function writePlugin(
  cluster: PrivateCluster,
  body: string,
): { readonly runs: () => number; readonly user: User } {
  const runs = path.join(cluster.dir, "runs");
  const program = path.join(cluster.dir, "plugin");
  writeFileSync(program, `#!/bin/sh\necho x >>${runs}\n${body}\n`, { mode: 0o700 });
  return {
    runs: () => (existsSync(runs) ? readFileSync(runs, "utf8").trim().split("\n").length : 0),
    user: {
      exec: {
        apiVersion: "client.authentication.k8s.io/v1",
        command: "./plugin",
        interactiveMode: "Never",
      },
    },
  };
}

function answerWith(cluster: PrivateCluster, status: object): void {
  const file = path.join(cluster.dir, "answer");
  const response = { kind: "ExecCredential", apiVersion: "client.authentication.k8s.io/v1", status };
  writeFileSync(`${file}.tmp`, JSON.stringify(response));
  renameSync(`${file}.tmp`, file);
}

function tokenOf(cluster: PrivateCluster): string {
  return /token: *"?([^"\s]+)/.exec(readFileSync(cluster.kubeconfig, "utf8"))?.[1] ?? "";
}

it("a plugin runs when its credential has expired or was refused, and not for every attempt during an outage", async () => {
  const cluster = shared();
  const plugin = writePlugin(cluster, `cat ${path.join(cluster.dir, "answer")}`);
  answerWith(cluster, { token: tokenOf(cluster) });
  using opened = await open(kubeconfigFor(cluster, plugin.user));
  const { client } = opened;
  await untilWorks(client);
  await untilWorks(client);
  expect(plugin.runs()).toBe(1);
  await cluster.stopApiServer();
  const startedAt = performance.now();
  while (performance.now() - startedAt < 7_000) {
    expect(await client.list(LEASES)).toMatchObject({ error: { kind: "unreachable" } });
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  expect(plugin.runs()).toBe(1);
  await cluster.startApiServer();
  await untilWorks(client);
  expect(plugin.runs()).toBe(1);
  // With an end: a new one is fetched after it, not before.
  answerWith(cluster, { token: "nonsense" });
  using other = await open(kubeconfigFor(cluster, plugin.user));
  expect(await other.client.list(LEASES)).toMatchObject({ error: { kind: "unauthorized", status: 401 } });
  const expirationTimestamp = new Date(Date.now() + 20_000).toISOString();
  answerWith(cluster, { token: tokenOf(cluster), expirationTimestamp });
  await untilWorks(other.client);
  const before = plugin.runs();
  await untilWorks(other.client);
  expect(plugin.runs()).toBe(before);
  await new Promise((resolve) => setTimeout(resolve, Date.parse(expirationTimestamp) - Date.now() + 100));
  answerWith(cluster, { token: tokenOf(cluster) });
  await untilWorks(other.client);
  expect(plugin.runs()).toBe(before + 1);
});

it("a plugin that hangs holds a call no longer than the call's own time", async () => {
  const cluster = shared();
  const gate = path.join(cluster.dir, "gate");
  writeFileSync(gate, "");
  onTestFinished(() => rmSync(gate));
  // Longer than the test.
  const plugin = writePlugin(cluster, `while [ -e ${gate} ]; do sleep 0.1; done`);
  using opened = await open(kubeconfigFor(cluster, plugin.user), 1_000);
  expect(await opened.client.list(LEASES)).toMatchObject({ ok: false });
});

it("a token file that is empty for a moment is no credential, and the next content counts at once", async () => {
  const cluster = shared();
  const file = path.join(cluster.dir, "token");
  writeFileSync(file, "");
  using opened = await open(kubeconfigFor(cluster, { tokenFile: "token" }));
  expect(await opened.client.list(LEASES)).toMatchObject({
    error: { kind: "unauthorized", reason: "CredentialUnavailable", message: expect.stringContaining(file) },
  });
  writeFileSync(file, tokenOf(cluster));
  await untilWorks(opened.client);
});
