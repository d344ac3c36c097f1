/** The chart on the real API server, by the real Helm: every object that it can have, and its life from install to uninstall. */
import { cpSync, rmSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { priorityClasses } from "../../controller/workload/priorities.ts";
import { bundleInto } from "../../scripts/bundle/bundle.ts";
import { chartValues } from "../../scripts/generate/chart.ts";
import { findMonitoringCrds } from "../../scripts/setup/definitions.mjs";
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { builtInBackends } from "../../src/engines/built-in-backends.ts";
import { connect } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { writeAccountKubeconfig } from "../bed/identity.ts";
import { listOf } from "../bed/kubectl.ts";
import { startPart } from "../bed/part.ts";
import { freePort } from "../bed/ports.ts";
import { until } from "../bed/until.ts";
import { oneCluster } from "../cluster/cluster.ts";
import { startAgentSide } from "../controller/agent-side.ts";
import { inferenceService } from "../controller/bench.ts";
import { root } from "../docs/pages.ts";
import { ranged, serveModel } from "../fixtures/model-server.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { everything, newSince } from "./everything.ts";
import { CHART, helmIn, helmProgram, install, NAMESPACE, needsHelm, objectsOf, template } from "./helm.ts";
import { layOut } from "./image.ts";

const DEFINITIONS = [
  "backendruntimes",
  "hostjoinrequests",
  "hosts",
  "inferencereplicas",
  "inferenceservices",
  "models",
].map((plural) => `customresourcedefinition.apiextensions.k8s.io/${plural}.metalbridge.dev`);
const monitoring = findMonitoringCrds();
const withHelm = test.skipIf(helmProgram === undefined);
const cluster = oneCluster({ crds: false });
let folder = "";

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "mb-chart-"));
});
afterAll(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));

/** With every boolean value true and false, and every two of them in all four combinations: rows of a Hadamard matrix. */
function grid(): readonly string[] {
  const booleans = chartValues().flatMap(({ key, type }) => (type === "boolean" ? [key] : []));
  const rows = 2 ** Math.ceil(Math.log2(booleans.length + 1));
  return Array.from({ length: rows }, (_, row) => {
    const on = (key: string) => isOdd(row & (booleans.indexOf(key) + 1));
    const isRefused = on("metrics.podMonitor") || !on("metrics.service");
    return booleans
      .map((key) => `${key}=${on(key) && !(key === "metrics.serviceMonitor" && isRefused)}`)
      .join(",");
  });
}

function isOdd(bits: number): boolean {
  return bits === 0 ? false : bits % 2 === 1 ? !isOdd(bits >> 1) : isOdd(bits >> 1);
}

withHelm(
  `installed, upgraded, serving, uninstalled, installed by kubectl, taken over${needsHelm}`,
  async () => {
    const { kubectl, kubeconfig } = cluster();
    const helm = helmIn(folder, kubeconfig);
    const before = await everything(kubectl);

    await install(helm, await olderChart(helm), "--create-namespace");
    expect(await definitions()).toEqual(DEFINITIONS.filter((name) => !name.includes("models")));
    const settings = "controller.allowLoopback=true,controller.logLevel=debug,replicas=1";
    await helm("upgrade", "metalbridge", CHART, "-n", NAMESPACE, "--reuse-values", "--set", settings);
    expect(await definitions()).toEqual(DEFINITIONS);
    expect(await kubectl(["get", "pdb", "-n", NAMESPACE, "-o", "name"])).toBe("");

    await serveAsInstalled();

    await helm("uninstall", "metalbridge", "-n", NAMESPACE);
    expect(await definitions()).toEqual(DEFINITIONS);
    // Stored content of BackendRuntimes stays for the services that use it.
    const left = (await newSince(kubectl, before)).filter(
      (one) => !/^ControllerRevision .*\/backend-/.test(one),
    );
    expect(left).toEqual([
      ...builtInBackends()
        .map(({ metadata }) => `BackendRuntime /${metadata.name}`)
        .sort(),
      ...DEFINITIONS.map((name) => `CustomResourceDefinition /${name.split("/")[1]}`),
      "Host /mac-1",
      "Lease metalbridge-hosts/mac-1",
      "Lease metalbridge-system/metalbridge-controller",
      "Model default/tiny",
      "Namespace /metalbridge-hosts",
      "Namespace /metalbridge-join",
      "Namespace /metalbridge-system",
      ...priorityClasses()
        .map(({ metadata }) => `PriorityClass /${metadata.name}`)
        .sort(),
      "Secret default/hub",
    ]);

    await kubectl(["apply", "--server-side", "-f", path.join(root, "examples/install")]);
    await expect(
      kubectl(["create", "--dry-run=server", "-f", "-"], { input: await podOf() }),
    ).resolves.toContain("created");
    await expect(install(helm, CHART)).rejects.toThrow(/cannot be imported into the current release/);
    await install(helm, CHART, "--take-ownership");
    await helm("uninstall", "metalbridge", "-n", NAMESPACE);
    expect(await kubectl(["get", "model", "tiny", "-o", "name"])).toContain("tiny");
  },
);

/** In the namespaces of the test before. */
withHelm(`the API server takes every object of a grid of values${needsHelm}`, async () => {
  const { kubectl } = cluster();
  if (monitoring !== undefined) await kubectl(["create", "-f", monitoring]);
  const helm = helmIn(folder);
  const documents = new Set<string>();
  const named =
    "node.enabled=true,node.llmfit.tokenSecret=a,node.runtimeClassName=b,node.modelFolders={/c},preflight.mode=Warn";
  for (const values of [...grid(), named])
    for (const document of (await template(helm, "--set", values)).split("\n---\n")) documents.add(document);
  const objects = [...documents].flatMap(objectsOf);
  const kinds = new Set(objects.map(({ kind }) => kind));
  for (const kind of ["ServiceMonitor", "PodMonitor", "PrometheusRule", "ConfigMap", "PodDisruptionBudget"])
    expect(kinds).toContain(kind);
  const items = objects.filter(
    ({ apiVersion }) => monitoring !== undefined || !apiVersion.startsWith("monitoring.coreos.com/"),
  );
  const args = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-o", "name", "-f", "-"];
  const taken = await kubectl(args, listOf(...items));
  expect(taken.trim().split("\n")).toHaveLength(items.length);
});

/** In the namespaces of the first test. */
withHelm(
  `the gateway's account writes Leases of demand and no others, and reads no Secret of users${needsHelm}`,
  async () => {
    const { kubectl } = cluster();
    const objects = objectsOf(await template(helmIn(folder), "--set", "gateway.enabled=true,replicas=0"));
    const rights = /^(ServiceAccount|(Cluster)?Role(Binding)?|ValidatingAdmissionPolicy(Binding)?)$/;
    const ours = objects.filter(
      ({ kind, metadata }) => rights.test(kind) && metadata.name === "metalbridge-gateway",
    );
    await kubectl(["apply", "--server-side", "-f", "-"], listOf(...ours));
    const as = `--as=system:serviceaccount:${NAMESPACE}:metalbridge-gateway`;
    const lease = (name: string, labels: object) =>
      listOf({
        apiVersion: "coordination.k8s.io/v1",
        kind: "Lease",
        metadata: { name, namespace: "default", labels },
        spec: {},
      });
    const create = (name: string, labels: object = { "metalbridge.dev/demand": "true" }) =>
      kubectl(["create", as, "-f", "-"], lease(name, labels));
    // A policy takes effect a moment after it is created.
    await until(() =>
      expect(create(`leader-${Date.now()}`, {})).rejects.toThrow(/may write Leases of demand only/),
    );
    await expect(create("chat", { "metalbridge.dev/demand": "true" })).rejects.toThrow(/of demand only/);
    await expect(create("chat-demand")).resolves.toContain("created");
    const may = (...args: string[]) => kubectl(["auth", "can-i", as, ...args]).catch(() => "no");
    expect(await may("get", "secrets", "-n", NAMESPACE)).toMatch(/^yes/);
    expect(await may("get", "secrets", "-n", "default")).toMatch(/^no/);
    expect(await may("watch", "endpointslices", "-n", "default")).toMatch(/^yes/);
  },
);

async function definitions(): Promise<readonly string[]> {
  const names = await cluster().kubectl(["get", "crd", "-o", "name"]);
  return names.split("\n").filter((name) => name.endsWith(".metalbridge.dev"));
}

/** The chart as a package of an earlier version, in which one kind did not exist yet. */
async function olderChart(helm: ReturnType<typeof helmIn>): Promise<string> {
  const copy = path.join(folder, "older");
  cpSync(CHART, copy, { recursive: true });
  rmSync(path.join(copy, "files/crds/models.yaml"));
  await helm("package", copy, "--version", "0.0.9", "--destination", folder);
  return path.join(folder, "metalbridge-0.0.9.tgz");
}

interface Deployed {
  readonly spec: {
    readonly template: {
      readonly spec: { readonly containers: readonly [{ readonly args: readonly string[] }] };
    };
  };
}

async function deployed(): Promise<Deployed> {
  const args = ["get", "deployment", "metalbridge-controller", "-n", NAMESPACE, "-o", "json"];
  return JSON.parse(await cluster().kubectl(args));
}

/** A pod of the Deployment, as its ReplicaSet would create it. */
async function podOf(): Promise<string> {
  const { template } = (await deployed()).spec;
  const metadata = { name: "probe", namespace: NAMESPACE };
  return JSON.stringify({ apiVersion: "v1", kind: "Pod", ...template, metadata });
}

/** The image's files, with the Deployment's arguments and the account's token, serve a Model from a source with a Secret. */
async function serveAsInstalled(): Promise<void> {
  const { kubectl, kubeconfig } = cluster();
  const dist = path.join(folder, "bundle");
  await mkdir(path.join(folder, "image"));
  await bundleInto(dist);
  const program = layOut(path.join(folder, "image"), dist);
  const own = path.join(folder, "controller.kubeconfig");
  await writeAccountKubeconfig(cluster(), {
    name: "metalbridge-controller",
    namespace: NAMESPACE,
    file: own,
  });
  const { args } = (await deployed()).spec.template.spec.containers[0];
  const port = await freePort();
  const place = ["--kubeconfig", own, "--health-port", String(port)];
  await using controller = startPart([...args, ...place], path.join(folder, "controller.log"), program);
  const ready = () => fetch(`http://127.0.0.1:${port}/readyz`).then(({ status }) => status);
  await until(async () => expect(await ready(), controller.log()).toBe(200));

  const connection = await connect({ kubeconfigPath: kubeconfig });
  const client = createClient(connection);
  await using _mac = await startAgentSide({ connection, client, host: "mac-1", renewEveryMs: 5_000 });
  const file = path.join(folder, "tiny.gguf");
  await writeTinyGguf(file);
  const server = await serveModel(ranged(await readFile(file)));
  await kubectl(["create", "secret", "generic", "hub", "--from-literal=HF_TOKEN=sesame"]);
  const model = {
    apiVersion: "metalbridge.dev/v1alpha1",
    kind: "Model",
    metadata: { name: "tiny", namespace: "default" },
    spec: {
      source: `${server.url}/tiny.gguf`,
      sourceSecretRef: { name: "hub" },
      hardware: { accelerator: "metal" },
    },
  };
  for (const object of [model, inferenceService("default", "chat", { replicas: 2 })])
    await kubectl(["apply", "--server-side", "-f", "-"], { input: JSON.stringify(object) });
  const name = { namespace: "default", name: "chat" };
  await until(async () => {
    const found = await client.get(INFERENCE_SERVICES, name);
    expect(found, controller.log()).toMatchObject({
      value: { status: { phase: "Ready", readyReplicas: 2 } },
    });
  });
  await until(async () =>
    expect(await kubectl(["get", "rolebindings", "-n", "default", "-o", "name"])).toContain("mac-1"),
  );

  await kubectl(["delete", "isvc", "chat", "--timeout=60s"]);
  await until(async () =>
    expect(await kubectl(["get", "irep,roles,services", "-o", "name"])).toBe("service/kubernetes\n"),
  );
  expect(controller.log()).not.toMatch(/forbidden/i);
  connection.close();
}
