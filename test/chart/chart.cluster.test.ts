/**
 * The chart on the real API server, by the real Helm: every object that it can have, and its life from install to uninstall.
 * CPU: Helm installs the chart on a control plane of its own, and upgrades it.
 */
import { cpSync, rmSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { priorityClasses } from "../../controller/pods/workload/priorities.ts";
import { chartValues } from "../../scripts/generate/chart.ts";
import { findMonitoringCrds } from "../../scripts/setup/definitions.mjs";
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { builtInBackends } from "../../src/engines/built-in-backends.ts";
import { hashKey, isKeyText } from "../../src/gateway/key-secret.ts";
import { connect } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { writeAccountKubeconfig } from "../bed/identity.ts";
import { listOf } from "../bed/kubectl.ts";
import { startPart } from "../bed/part.ts";
import { freePort } from "../bed/ports.ts";
import { freshBundle } from "../bed/release.ts";
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
].map((plural) => `${plural}.metalbridge.dev`);
const monitoring = findMonitoringCrds();
const withHelm = test.skipIf(helmProgram === undefined);
const cluster = oneCluster({ crds: false });
let folder = "";

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "mb-chart-"));
});
afterAll(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));

/**
 * With every two boolean values in all four combinations, twice. A value is off in the first row and on in more than half of
 * the others, each value in a choice of rows of its own: so two are on together somewhere, and each is without the other.
 */
/** Without a cluster the chart makes no token and no key. */
const GIVEN = "openWebUI.secretName=chat,node.llmfit.tokenSecret=sesame";

function grid(): readonly string[] {
  const booleans = chartValues().flatMap(({ key, type }) => (type === "boolean" ? [key] : []));
  const { rows, choices } = choicesFor(booleans.length);
  return [booleans, booleans.toReversed()].flatMap((order) =>
    Array.from({ length: rows }, (_, row) => {
      const on = (key: string) => row > 0 && isSet(choices[order.indexOf(key)] ?? 0, row - 1);
      const refused: Readonly<Record<string, boolean>> = {
        "metrics.serviceMonitor": on("metrics.podMonitor") || !on("metrics.service"),
        "scheduler.extender.enabled": !on("server.enabled"),
        "openWebUI.enabled": !on("gateway.enabled"),
      };
      return order.map((key) => `${key}=${on(key) && refused[key] !== true}`).join(",");
    }),
  );
}

/** The fewest rows of which there are so many choices. */
function choicesFor(count: number): { readonly rows: number; readonly choices: readonly number[] } {
  for (let rows = 2; ; rows += 1) {
    const bits = Array.from({ length: rows - 1 }, (_, bit) => bit);
    const choices = Array.from({ length: 2 ** (rows - 1) }, (_, choice) => choice).filter(
      (choice) => bits.filter((bit) => isSet(choice, bit)).length === Math.ceil(rows / 2),
    );
    if (choices.length >= count) return { rows, choices };
  }
}

function isSet(bits: number, bit: number): boolean {
  return ((bits >> bit) & 1) === 1;
}

withHelm(
  `installed, upgraded, serving, uninstalled, installed by kubectl, taken over${needsHelm}`,
  async () => {
    const { kubectl, kubeconfig, objects } = cluster();
    const helm = helmIn(folder, kubeconfig);
    const before = await everything(kubectl);

    await install(helm, await olderChart(helm), "--create-namespace");
    expect(await definitions()).toEqual(DEFINITIONS.filter((name) => !name.includes("models")));
    const settings = "controller.allowLoopback=true,controller.logLevel=debug,replicas=1";
    await helm("upgrade", "metalbridge", CHART, "-n", NAMESPACE, "--reuse-values", "--set", settings);
    expect(await definitions()).toEqual(DEFINITIONS);
    expect((await objects.get(NAMESPACE, "pdb")).items).toEqual([]);

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
      ...DEFINITIONS.map((name) => `CustomResourceDefinition /${name}`),
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
    await objects.create(await podOf(), { dryRun: true });
    await expect(install(helm, CHART)).rejects.toThrow(/cannot be imported into the current release/);
    await install(helm, CHART, "--take-ownership");
    await helm("uninstall", "metalbridge", "-n", NAMESPACE);
    expect(await objects.get("default", "model/tiny")).toBeDefined();
  },
);

/** In the namespaces of the test before. */
withHelm(
  `generated secrets are kept over an upgrade, and Pod Security leaves out only what it refuses${needsHelm}`,
  async () => {
    const { objects, kubeconfig } = cluster();
    const helm = helmIn(folder, kubeconfig);
    const upgrade = (...set: readonly string[]) =>
      helm("upgrade", "metalbridge", CHART, "-n", NAMESPACE, "--reuse-values", "--set", set.join(","));
    const generated = async () => {
      const names = ["metalbridge-node-llmfit", "metalbridge-open-webui", "open-webui", "metalbridge-lws"];
      const secrets = await Promise.all(names.map((name) => objects.get(NAMESPACE, `secret/${name}`)));
      return secrets.map(({ data }) => data);
    };
    const enforce = (level: string | null) => {
      const labels = { "pod-security.kubernetes.io/enforce": level };
      return objects.patch("", `namespace/${NAMESPACE}`, { metadata: { labels } });
    };
    await enforce(null);
    const on = "server.enabled=true,gateway.enabled=true,openWebUI.enabled=true,leaderWorkerSet.enabled=true";
    await install(helm, CHART, "--take-ownership", "--set", on);
    const before = await generated();
    const [token, chat, key] = before.map(decoded);
    expect(token).toEqual({ token: expect.stringMatching(/^[A-Za-z0-9]{43}$/) });
    expect(JSON.stringify(await objects.get(NAMESPACE, "daemonset"))).toContain('"--llmfit-port=8787"');
    expect(isKeyText(chat?.apiKey ?? "")).toBe(true);
    const hashOf = (text = "") => ({
      sha256: hashKey(text),
      hint: text.slice(0, 8),
      createdAt: expect.any(String),
    });
    expect(JSON.parse(key?.["key.json"] ?? "")).toEqual({
      owner: "Open WebUI",
      scope: "all",
      hashes: [hashOf(chat?.apiKey)],
    });
    const templates = () => Promise.all(["open-webui", "gateway"].map(annotationsOf));
    const annotations = await templates();
    await upgrade("openWebUI.namespaces={team-a}");
    expect(await generated()).toEqual(before);
    expect(await templates()).toEqual(annotations);

    await objects.remove(NAMESPACE, "secret/open-webui");
    await upgrade("replicas=1");
    const [, again, made] = (await generated()).map(decoded);
    expect(again).toEqual({ ...chat, apiKey: expect.not.stringMatching(chat?.apiKey ?? "") });
    expect(JSON.parse(made?.["key.json"] ?? "")).toMatchObject({
      scope: { namespaces: ["team-a"] },
      hashes: [hashOf(again?.apiKey)],
    });
    expect(await templates()).not.toEqual(annotations);

    expect(await upgrade("rbac.create=false")).toBeDefined();
    expect((await objects.get(NAMESPACE, "daemonset")).items).toEqual([]);
    await upgrade("rbac.create=true");

    await enforce("restricted");
    await expect(upgrade("replicas=1")).rejects.toThrow(
      /openWebUI\.enabled: this namespace admits restricted/,
    );
    expect(await upgrade("openWebUI.enabled=false")).toMatch(/DaemonSet metalbridge-node was left out/);
    expect((await objects.get(NAMESPACE, "daemonset")).items).toEqual([]);
    expect(await upgrade("node.enabled=true")).toMatch(/WARNING: the pods of the DaemonSet/);
    await helm("uninstall", "metalbridge", "-n", NAMESPACE);
    const [claim] = (await objects.get(NAMESPACE, "pvc")).items;
    expect(claim?.metadata.name).toBe("metalbridge-open-webui");
    expect(await objects.get("", "crd/leaderworkersets.leaderworkerset.x-k8s.io")).toBeDefined();
  },
);

/** In the namespaces of the test before. */
withHelm(`the API server takes every object of a grid of values${needsHelm}`, async () => {
  const { kubectl } = cluster();
  if (monitoring !== undefined) await kubectl(["apply", "--server-side", "-f", monitoring]);
  const helm = helmIn(folder);
  const documents = new Set<string>();
  const named = "node.enabled=true,node.runtimeClassName=b,node.modelFolders={/c},preflight.mode=Warn";
  for (const values of [...grid(), named])
    for (const document of (await template(helm, "--set", `${values},${GIVEN}`)).split("\n---\n"))
      documents.add(document);
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
    const objects = objectsOf(
      await template(helmIn(folder), "--set", "gateway.enabled=true,gateway.keysNamespace=keys"),
    );
    const rights =
      /^(Namespace|ServiceAccount|(Cluster)?Role(Binding)?|ValidatingAdmissionPolicy(Binding)?)$/;
    const ours = objects.filter(
      ({ kind, metadata }) => rights.test(kind) && /^(metalbridge-gateway(-keys)?|keys)$/.test(metadata.name),
    );
    await cluster().objects.apply(...ours);
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
    expect(await may("list", "secrets", "-n", "keys")).toMatch(/^yes/);
    expect(await may("get", "secrets", "-n", NAMESPACE)).toMatch(/^no/);
    expect(await may("get", "secrets", "-n", "default")).toMatch(/^no/);
    expect(await may("watch", "endpointslices", "-n", "default")).toMatch(/^yes/);
  },
);

/** The decoded data of a Secret. */
function decoded(data: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const entries = Object.entries(data).map(([key, value]) => [key, Buffer.from(value, "base64").toString()]);
  return Object.fromEntries(entries);
}

/** Annotations of the pods of a Deployment of the chart. */
async function annotationsOf(part: string): Promise<object> {
  const found: {
    readonly spec: { readonly template: { readonly metadata: { readonly annotations: object } } };
  } = await cluster().objects.get(NAMESPACE, `deployment/metalbridge-${part}`);
  return found.spec.template.metadata.annotations;
}

async function definitions(): Promise<readonly string[]> {
  const { items }: { readonly items: readonly { readonly metadata: { readonly name: string } }[] } =
    await cluster().objects.get("", "crd");
  const names = items
    .map(({ metadata }) => metadata.name)
    .filter((name) => name.endsWith(".metalbridge.dev"));
  return names.sort();
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
  return cluster().objects.get(NAMESPACE, "deployment/metalbridge-controller");
}

/** A pod of the Deployment, as its ReplicaSet would create it. */
async function podOf(): Promise<object> {
  const { template } = (await deployed()).spec;
  return { apiVersion: "v1", kind: "Pod", ...template, metadata: { name: "probe", namespace: NAMESPACE } };
}

/** The image's files, with the Deployment's arguments and the account's token, serve a Model from a source with a Secret. */
async function serveAsInstalled(): Promise<void> {
  const { kubeconfig, objects } = cluster();
  const dist = await freshBundle(path.join(folder, "bundle"));
  await mkdir(path.join(folder, "image"));
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
  const stringData = { HF_TOKEN: "sesame" };
  await objects.apply({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "hub", namespace: "default" },
    stringData,
  });
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
  await objects.apply(model, inferenceService("default", "chat", { replicas: 2 }));
  const name = { namespace: "default", name: "chat" };
  await until(async () => {
    const found = await client.get(INFERENCE_SERVICES, name);
    expect(found, controller.log()).toMatchObject({
      value: { status: { phase: "Ready", readyReplicas: 2 } },
    });
  });
  const namesOf = (found: readonly { readonly metadata: { readonly name: string } }[]) =>
    found.map(({ metadata }) => metadata.name);
  await objects.until("default", "rolebindings", (found) =>
    expect(namesOf(found)).toContainEqual(expect.stringContaining("mac-1")),
  );

  await objects.remove("default", "isvc/chat");
  for (const kind of ["irep", "roles"])
    await objects.until("default", kind, (found) => expect(namesOf(found)).toEqual([]));
  await objects.until("default", "services", (found) => expect(namesOf(found)).toEqual(["kubernetes"]));
  expect(controller.log()).not.toMatch(/forbidden/i);
  connection.close();
}
