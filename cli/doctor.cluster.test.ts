/** doctor against a real API server: its clock, the credential's life, and the agent's own preflight. */
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { HOSTS } from "../src/api/kinds.ts";
import { PODS } from "../src/kube/kinds.ts";
import { writeTokenKubeconfig } from "../test/bed/identity.ts";
import { must } from "../test/bed/must.ts";
import { type Desk, openDesk } from "../test/cli/objects.ts";
import { runVerb, startProgram } from "../test/cli/program.ts";
import { sharedCluster } from "../test/cluster/cluster.ts";

interface Result {
  readonly code: string;
  readonly check: string;
  readonly status: string;
  readonly finding: string;
}

async function startBed() {
  const home = await mkdtemp(path.join(tmpdir(), "mb-doctor-"));
  const { kubeconfig } = sharedCluster();
  const name = `doctor-${path.basename(home).slice(-6).toLowerCase()}`;
  const doctor = async (file = kubeconfig): Promise<readonly Result[]> => {
    const where = ["--state-dir", home, "--host-name", name, "--kubeconfig", file];
    const args = ["doctor", "-o", "json", "--timeout", "30s", ...where];
    const { stdout } = await runVerb(args, { env: { HOME: home } });
    return (JSON.parse(stdout) as { results: readonly Result[] }).results;
  };
  return {
    home,
    kubeconfig,
    name,
    doctor,
    [Symbol.asyncDispose]: () => rm(home, { recursive: true, force: true }),
  };
}

/** A kubeconfig for the same cluster, which others may read. */
async function withToken({ home, kubeconfig }: { home: string; kubeconfig: string }, token: string) {
  const file = path.join(home, "kubeconfig");
  await writeTokenKubeconfig({ kubeconfig }, token, file);
  await chmod(file, 0o644);
  return file;
}

const statusOf = (results: readonly Result[], check: string) =>
  results.filter((result) => result.check === check).map(({ status, code }) => `${status} ${code}`);

test("a host that is not registered, then one that is", async () => {
  await using bed = await startBed();
  const { objects } = sharedCluster();
  const before = await bed.doctor();
  expect(statusOf(before, "route to the API server")).toEqual(["ok ApiUnreachable"]);
  expect(statusOf(before, "clock")).toEqual(["ok ClockSkewed"]);
  // An administrator's fixed token does not say how long it is valid.
  expect(statusOf(before, "life of the credential")).toEqual(["unknown CredentialExpired"]);
  expect(statusOf(before, "rights of the credential")).toEqual(["ok ApiForbidden"]);
  expect(statusOf(before, "Host object")).toEqual(["error HostNotRegistered"]);
  const host = {
    apiVersion: "metalbridge.dev/v1alpha1",
    kind: "Host",
    metadata: { name: bed.name },
    spec: { addresses: ["0.0.0.0/1", "128.0.0.0/1"] },
  };
  await objects.apply(host);
  const after = await bed.doctor();
  await objects.remove("", `host/${bed.name}`);
  expect(statusOf(after, "Host object")).toEqual(["ok HostNotRegistered"]);
  expect(statusOf(after, "address to serve on")).toEqual(["ok AddressUnknown"]);
});

test("a token of a ServiceAccount is judged by its claims, and by the rights that it has", async () => {
  await using bed = await startBed();
  const { objects } = sharedCluster();
  await objects.create({ apiVersion: "v1", kind: "ServiceAccount", metadata: { name: bed.name } });
  const results = await bed.doctor(await withToken(bed, await objects.token("default", bed.name)));
  await objects.remove("default", `serviceaccount/${bed.name}`);
  expect(statusOf(results, "life of the credential")).toEqual(["ok CredentialExpired"]);
  expect(statusOf(results, "renewal of the credential")).toEqual(["ok CredentialExpiresSoon"]);
  expect(statusOf(results, "kind of the credential")).toEqual(["ok CredentialLongLived"]);
  const rights = results.find(({ check }) => check === "rights of the credential");
  expect(rights).toMatchObject({ status: "error", code: "ApiForbidden" });
  expect(rights?.finding).toContain("patch hosts/status");
});

test("a token that has expired is found, and so is that the API server refuses it", async () => {
  await using bed = await startBed();
  const nowSeconds = Math.floor(Date.now() / 1_000);
  const claims = { iat: nowSeconds - 7_200, exp: nowSeconds - 3_600 };
  const token = ["{}", JSON.stringify(claims), "x"]
    .map((part) => Buffer.from(part).toString("base64url"))
    .join(".");
  const results = await bed.doctor(await withToken(bed, token));
  expect(statusOf(results, "life of the credential")).toEqual(["error CredentialExpired"]);
  expect(statusOf(results, "route to the API server")).toEqual(["error ApiUnauthorized"]);
  // Without an answer nothing of the preflight is passed.
  expect(statusOf(results, "rights of the credential")).toEqual(["unknown ApiForbidden"]);
  expect(statusOf(results, "permissions of the credential")).toEqual(["error CredentialReadable"]);
});

test("a pod asks the host's port; the pod is always deleted", async () => {
  await using desk = await openDesk();
  const { kubeconfig, namespace } = desk;
  const { objects } = desk.cluster;
  const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
  await objects.patch("", `namespace/${namespace}`, { metadata: { labels } });
  const host = await desk.host();
  const args = ["doctor", "--from-cluster", host, "-n", namespace, "--kubeconfig", kubeconfig];
  await desk.status(HOSTS, host, { addresses: ["192.168.1.21"] });
  expect(await runVerb(args)).toMatchObject({ code: 1, stderr: expect.stringContaining("NoProbeImage") });

  /** Starts the probe, and ends its pod as a kubelet would. */
  const probe = async (status: object | undefined, ...more: readonly string[]) => {
    await using doctor = startProgram([...args, "--image", "node:24-alpine", "--all", ...more]);
    const pods = async () => (await listPods(desk)).filter(({ status: is }) => is?.phase === "Pending");
    await expect.poll(async () => (await pods()).length, { timeout: 60_000 }).toBe(1);
    const [pod] = await pods();
    const name = pod?.metadata.name ?? "";
    if (status !== undefined) await desk.status(PODS, name, status);
    const end = await doctor.ended;
    await expect.poll(() => listPods(desk), { timeout: 60_000 }).toEqual([]);
    return { ...end, command: pod?.spec.containers[0]?.command?.slice(4) };
  };
  const ended = (message: string) => ({
    phase: "Succeeded",
    containerStatuses: [
      {
        name: "probe",
        image: "i",
        imageID: "i",
        ready: false,
        restartCount: 0,
        state: { terminated: { exitCode: 0, reason: "Completed", message } },
      },
    ],
  });
  const any = "192.168.1.21:21000";
  // It serves nothing: a refusal shows that it can be reached.
  expect(await probe(ended(`${any} ECONNREFUSED`))).toMatchObject({ code: 0, command: [any] });

  const slice = {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    addressType: "IPv4",
    metadata: { name: "chat-x", namespace, labels: { "metalbridge.dev/host": host } },
    endpoints: [{ addresses: ["192.168.1.21"], conditions: { ready: true } }],
    ports: [{ name: "http", port: 21_007 }],
  };
  await objects.create(slice);
  const served = "192.168.1.21:21007";
  const refused = await probe(ended(`${served} ECONNREFUSED`));
  expect(refused).toMatchObject({ code: 1, command: [served] });
  expect(refused.stdout).toContain(
    `error    HostUnreachableFromCluster: a pod cannot connect to ${served}: ECONNREFUSED`,
  );
  // Long enough that the pod is seen, here and by the program.
  const late = await probe(undefined, "--timeout", "10s", "-o", "json");
  expect(late.code).toBe(3);
  expect(JSON.parse(late.stdout)).toMatchObject({
    summary: { unknown: 1 },
    results: [{ status: "unknown", finding: "the probe did not run: the pod is Pending" }],
  });
});

async function listPods({ client, namespace }: Desk) {
  return must(await client.list(PODS, { namespace })).items;
}
