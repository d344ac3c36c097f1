/** Autoscaling with the real HPA of kube-controller-manager, and with the real kind and scaler schema of KEDA. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request } from "node:https";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { packageRoot } from "../../../local/package-root.ts";
import { findKEDACrds } from "../../../scripts/setup/definitions.mjs";
import { getCondition } from "../../../src/api/conditions.ts";
import { NAMESPACE_SYSTEM } from "../../../src/api/group.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { KubeObject } from "../../../src/kube/types.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import { freePort } from "../../../test/bed/ports.ts";
import { ENGINE_PORT, reportReplica } from "../../../test/bed/scripted-host.ts";
import { until } from "../../../test/bed/until.ts";
import { aggregationArgs } from "../../../test/cluster/aggregation.ts";
import { WITHOUT_PODS } from "../../../test/cluster/planes.ts";
import type { AgentSide } from "../../../test/controller/agent-side.ts";
import { type Bench, inferenceService, startBench } from "../../../test/controller/bench.ts";
import { createSteppedClock } from "../../../test/controller/stepped-clock.ts";
import { REQUESTS_METRIC } from "../../frame/service/autoscaling.ts";
import { API_SERVICE_NAME } from "../../options/external-metrics/api.ts";

const NS = "elastic";
const ADAPTER = `apiservice/${API_SERVICE_NAME}`;
/** The real HPA and the held-back changes need time. */
const EACH_SECOND = { everyMs: 1_000 };
const HOSTS = ["mac-a", "mac-b", "mac-c"];
/** Longer than a change of the load is held back. */
const HELD_BACK_MS = 31_000;
/** Acts at once, so that a test need not wait. */
const AT_ONCE = Object.fromEntries(
  ["scaleUp", "scaleDown"].map((way) => [
    way,
    { stabilizationWindowSeconds: 0, policies: [{ type: "Pods", value: 10, periodSeconds: 1 }] },
  ]),
);

const clock = createSteppedClock();
const folder = mkdtempSync(path.join(tmpdir(), "metalbridge-aggregation-"));
const keda = findKEDACrds();
const withKEDA = keda === undefined ? test.skip : test;
let bench: Bench;
let port: number;
let healthPort: number;
let agents: AgentSide[];
/** Requests in flight of each engine. */
let load = 0;

const statusOf = (): InferenceReplica["status"] => ({
  ...({ phase: "Ready", reason: "EngineReady", message: "", port: ENGINE_PORT, pid: 4711 } as const),
  performance: load === 0 ? undefined : { requestsInFlight: load },
});

beforeAll(async () => {
  bench = await startBench({
    clock,
    controlPlane: {
      apiServerArgs: aggregationArgs(folder),
      controllerManager: [
        ...WITHOUT_PODS,
        "horizontal-pod-autoscaler-controller",
        "deployment-controller",
        "replicaset-controller",
      ],
      controllerManagerArgs: ["--horizontal-pod-autoscaler-sync-period=1s"],
    },
  });
  port = await freePort();
  healthPort = await freePort();
  for (const object of chartObjects(port)) await bench.apply(object);
  await restartController();
  await bench.objects.createNamespace(NS);
  await bench.model(NS, "tiny");
  agents = await Promise.all(HOSTS.map((host) => bench.agent(host, { statusOf })));
});

afterAll(async () => {
  await bench?.[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

function restartController(): Promise<void> {
  return bench.restartController(bench.controllerKubeconfig, {
    externalMetrics: true,
    externalMetricsAddress: "127.0.0.1",
    externalMetricsPort: port,
    healthPort,
    loadEndpoint: `http://127.0.0.1:${healthPort}`,
  });
}

/**
 * Sets the load of each engine, as agents report it. Time passes only while the service does not show it, because a change is held
 * back, and a host whose renewal the controller has not seen yet would be unreachable.
 */
async function report(requests: number, name = "chat"): Promise<void> {
  load = requests;
  const { client } = bench;
  for (const replica of await bench.replicas(NS)) await reportReplica(client, replica, statusOf());
  const { performance, readyReplicas = 0 } = (await bench.service(NS, name)).status ?? {};
  if ((performance?.requestsInFlight ?? 0) === requests * readyReplicas) return;
  clock.advance(HELD_BACK_MS);
  for (const agent of agents) await agent.renew();
}

/** A change that is held back when it is reported is published only once more time has passed. */
async function reportUntil(requests: number, ready: string) {
  const reported = async () => {
    await report(requests);
    const service = await bench.service(NS, "chat");
    expect(service.status?.ready).toBe(ready);
    return service;
  };
  return until(reported, EACH_SECOND);
}

/** Its condition ScalingActive. */
const activeUntil = (name: string, expected: object) =>
  bench.serviceUntil(NS, name, ({ status }) =>
    expect(getCondition(status?.conditions, "ScalingActive")).toMatchObject(expected),
  );

const hpasUntil = (...names: readonly string[]) =>
  bench.objects.until(NS, "hpa", (items: KubeObject[]) =>
    expect(items.map(({ metadata }) => metadata.name)).toEqual(names),
  );

test("a service on hosts scales from one to three replicas by its requests, and back", async () => {
  await bench.apply(
    inferenceService(NS, "chat", { autoscaling: { maxReplicas: 3, targetRequests: 2, behavior: AT_ONCE } }),
  );
  await bench.serviceUntil(NS, "chat", ({ status }) => expect(status?.ready).toBe("1/1"));
  const idle = await bench.serviceUntil(NS, "chat", ({ status }) =>
    expect(getCondition(status?.conditions, "ScalingActive")?.status).toBe("True"),
  );
  expect(getCondition(idle.status?.conditions, "AbleToScale")?.status).toBe("True");
  const grown = await reportUntil(6, "3/3");
  expect(grown.spec.replicas).toBe(3);
  await until(async () => {
    await report(6);
    expect(limited(await bench.service(NS, "chat"))).toBe("TooManyReplicas");
  }, EACH_SECOND);
  await reportUntil(0, "1/1");

  await bench.objects.patch(NS, "isvc/chat", { spec: { autoscaling: null } });
  // An HPA that is about to be deleted would undo a change of the replicas.
  await hpasUntil();
  await bench.objects.patch(NS, "isvc/chat", { spec: { replicas: 2 } });
  await bench.serviceUntil(NS, "chat", ({ status }) => {
    expect(status?.ready).toBe("2/2");
    expect(getCondition(status?.conditions, "ScalingActive")).toBeUndefined();
  });
});

function limited({ status }: Awaited<ReturnType<Bench["service"]>>): string | undefined {
  return getCondition(status?.conditions, "ScalingLimited")?.reason;
}

test("only the API server may read external metrics, and it lets only those who may", async () => {
  const route = `/apis/external.metrics.k8s.io/v1beta1/namespaces/${NS}/${REQUESTS_METRIC}`;
  const asked = request({ port, host: "127.0.0.1", path: route, rejectUnauthorized: false }).end();
  const status = await new Promise((resolve) => asked.once("response", (one) => resolve(one.statusCode)));
  expect(status).toBe(401);
  expect(JSON.parse(await bench.objects.raw(route))).toMatchObject({ kind: "ExternalMetricValueList" });
  const as = ["--as", "stranger", "--as-group", "system:authenticated"];
  await expect(bench.cluster.kubectl(["get", "--raw", route, ...as])).rejects.toThrow(/Forbidden|forbidden/);
});

test("the replicas stay while the requests of a ready pod are not known", async () => {
  await bench.apply({
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: "metalbridge-model-cache", namespace: NS },
    spec: { accessModes: ["ReadWriteMany"], resources: { requests: { storage: "1Gi" } } },
  });
  await bench.model(NS, "cached", { accelerator: "cpu" });
  const autoscaling = { maxReplicas: 5, behavior: AT_ONCE };
  await bench.apply(inferenceService(NS, "unread", { modelRef: "cached", replicas: 3, autoscaling }));
  const pods = await bench.objects.until(NS, "pods", (items: readonly Pod[]) => {
    const found = items.filter(({ metadata }) => metadata.labels?.["metalbridge.dev/service"] === "unread");
    expect(found).toHaveLength(3);
    return found;
  });
  // Nothing listens at this address.
  const status = { phase: "Running", podIP: "127.0.0.9", conditions: [{ type: "Ready", status: "True" }] };
  for (const { metadata } of pods)
    await bench.objects.patch(NS, `pod/${metadata.name}`, { status }, "status");
  const found = await bench.serviceUntil(NS, "unread", ({ status }) => {
    expect(status?.readyReplicas).toBe(3);
    expect(status?.performance).toEqual({ requestsUnknown: true });
    expect(getCondition(status?.conditions, "ScalingActive")).toMatchObject({
      status: "False",
      reason: "FailedGetExternalMetric",
      message: expect.stringContaining("requestsUnknown"),
    });
  });
  expect(found.spec.replicas).toBe(3);
  await bench.objects.remove(NS, "isvc/unread");
});

test("KEDA that is not installed is named in a condition, and the replicas stay", async () => {
  await bench.apply(inferenceService(NS, "later", { autoscaling: { engine: "KEDA", maxReplicas: 3 } }));
  const message = expect.stringContaining("helm install keda");
  await activeUntil("later", { reason: "KEDANotInstalled", message });
  expect((await bench.service(NS, "later")).spec.replicas).toBe(1);
});

withKEDA("the service waits for KEDA, whose kind accepts its ScaledObject, and never has both", async () => {
  await bench.objects.install(path.join(keda ?? "", "keda.sh_scaledobjects.yaml"));
  // Kinds that a cluster lacks are looked for at intervals.
  await until(async () => {
    clock.advance(60_000);
    for (const agent of agents) await agent.renew();
    const [found] = (await bench.objects.get(NS, "scaledobjects")).items;
    expect(found?.spec).toMatchObject({ scaleTargetRef: { kind: "InferenceService", name: "later" } });
    expectRequired(found.spec.triggers);
  });
  const [{ metadata: trigger }] = (await bench.objects.get(NS, "scaledobject/later")).spec.triggers;
  await bench.serviceUntil(NS, "later", ({ status }) => expect(status?.ready).toBe("1/1"));
  for (const requests of [4, 0])
    await until(async () => {
      await report(requests, "later");
      expect(await readAsKEDA(trigger)).toBe(requests);
    }, EACH_SECOND);
  const url = (name: string) => trigger.url.replace(/later$/, name);
  await bench.apply(inferenceService(NS, "waiting", { modelRef: "none" }));
  await expect(readAsKEDA({ ...trigger, url: url("none") })).rejects.toThrow(
    `/load/${NS}/none: api returned 404`,
  );
  await until(() => expect(readAsKEDA({ ...trigger, url: url("waiting") })).rejects.toThrow("503"));
  await activeUntil("later", { reason: "AutoscalerNotEvaluated" });
  const conditions = [
    {
      type: "Ready",
      status: "True",
      reason: "ScaledObjectReady",
      message: "ScaledObject is defined correctly",
    },
    { type: "Active", status: "False", reason: "ScalerNotActive", message: "no trigger is active" },
  ];
  await bench.objects.patch(NS, "scaledobject/later", { status: { conditions } }, "status");
  await activeUntil("later", { status: "True" });

  await bench.objects.patch(NS, "isvc/later", { spec: { autoscaling: { engine: "HPA" } } });
  await hpasUntil("later");
  expect((await bench.objects.get(NS, "hpa/later")).spec.maxReplicas).toBe(3);
  await bench.objects.until(NS, "scaledobjects", (items) => expect(items).toEqual([]));
  await bench.objects.patch(NS, "isvc/later", { spec: { autoscaling: { engine: "KEDA" } } });
  await bench.objects.until(NS, "scaledobjects", (items) => expect(items).toHaveLength(1));
  await hpasUntil();
});

test("the APIService of another adapter stays as it is, and services follow its owner", async () => {
  const { spec } = await bench.objects.get("", ADAPTER);
  const service = { name: "keda-operator-metrics-apiserver", namespace: "keda", port: 443 };
  const foreign = { service, caBundle: null, insecureSkipTLSVerify: true };
  await bench.objects.patch("", ADAPTER, { spec: foreign });
  await bench.apply(inferenceService(NS, "taken", { autoscaling: { maxReplicas: 3 } }));
  const message = expect.stringContaining("keda/keda-operator-metrics-apiserver");
  await activeUntil("taken", { reason: "ExternalMetricsTaken", message });
  expect((await bench.objects.get("", ADAPTER)).spec.caBundle).toBeUndefined();
  await hpasUntil();

  const { service: own } = spec;
  await bench.objects.patch("", ADAPTER, { spec: { service: own, insecureSkipTLSVerify: null } });
  await bench.objects.until("", ADAPTER, (found) => expect(found.spec.caBundle).toBe(spec.caBundle));
  await hpasUntil("taken");
});

/** Each scaler is known to KEDA, and has the metadata that KEDA requires. */
function expectRequired(triggers: readonly { type: string; metadata: Record<string, string> }[]): void {
  const { scalers } = JSON.parse(readFileSync(path.join(keda ?? "", "scalers-schema.json"), "utf8")) as {
    scalers: { type: string; parameters: Record<string, unknown>[] }[];
  };
  for (const { type, metadata } of triggers) {
    const parameters = scalers.find((scaler) => scaler.type === type)?.parameters ?? [];
    const readable = parameters.filter(({ metadataVariableReadable }) => metadataVariableReadable === true);
    const required = readable.filter((one) => one.optional !== true && one.default === undefined);
    const names = (of: typeof parameters) => of.map(({ name }) => name);
    expect(names(readable)).toEqual(expect.arrayContaining(Object.keys(metadata)));
    expect(Object.keys(metadata)).toEqual(expect.arrayContaining(names(required)));
    // Format json without authentication is the default.
    expect(Object.keys(metadata).sort()).toEqual(["targetValue", "url", "valueLocation"]);
    // The schema has it as optional, but KEDA requires it here.
    expect(metadata).toHaveProperty("targetValue");
  }
}

/** Like KEDA's scaler metrics-api (pkg/scalers/metrics_api_scaler.go of v2.21.0), without authentication and in format json. */
async function readAsKEDA(trigger: Readonly<Record<string, string>>): Promise<number> {
  const { url = "", valueLocation = "" } = trigger;
  const response = await fetch(url, { headers: { "user-agent": "Go-http-client/1.1" } });
  if (response.status !== 200) throw new Error(`${new URL(url).pathname}: api returned ${response.status}`);
  const body = (await response.json()) as Record<string, unknown>;
  const value = body[valueLocation];
  if (typeof value !== "number") throw new Error(`${valueLocation} must point to a numeric value`);
  return value;
}

/** Those of the chart, with a Service that leads to the controller of this test. */
function chartObjects(toPort: number): readonly object[] {
  const file = path.join(packageRoot(), "charts/metalbridge/templates/autoscaling.yaml");
  const text = readFileSync(file, "utf8")
    .replaceAll("{{ .Release.Namespace }}", NAMESPACE_SYSTEM)
    .split("\n")
    .filter((line) => !line.includes("{{") && !line.endsWith("labels:"))
    .join("\n");
  const objects = parseAllDocuments(text).map((document) => document.toJS());
  return objects
    .filter(({ metadata }) => metadata.name !== "metalbridge-autoscaling")
    .map((object) => {
      if (object.kind === "Service")
        return { ...object, spec: { type: "ExternalName", externalName: "localhost" } };
      if (object.kind !== "APIService") return object;
      return { ...object, spec: { ...object.spec, service: { ...object.spec.service, port: toPort } } };
    });
}
