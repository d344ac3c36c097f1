/**
 * Services as pods, with the real API server, controllers and scheduler; nodes and kubelets are kwok's.
 * CPU: a scheduler, and nodes of kwok, for every outcome of a pod.
 */
import { readFileSync } from "node:fs";
import path from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { getCondition } from "../../src/api/conditions.ts";
import type { ModelFormat } from "../../src/api/fields/shared.ts";
import type { InferenceService, InferenceServiceStatus } from "../../src/api/inference-service/index.ts";
import { GGUF } from "../../src/capacity/testing/models.ts";
import { DEPLOYMENTS } from "../../src/kube/kinds.ts";
import type { KubeObject } from "../../src/kube/types.ts";
import { serveLogs } from "../../test/bed/kubelet-logs.ts";
import { whyNoSimulatedNodes } from "../../test/bed/kwok.ts";
import { scriptAnnotations } from "../../test/bed/kwok-stages.ts";
import type { AgentSide, AgentSideOptions } from "../../test/controller/agent-side.ts";
import { type Bench, inferenceService, startBench } from "../../test/controller/bench.ts";
import { changesSince } from "./fixtures/observe.ts";
import { testRefusals } from "./fixtures/refusals.ts";

const why = whyNoSimulatedNodes();
const GPU = "nvidia.com/gpu";
/** A service that hosts may run needs them to be placed. */
const readFacts = (format: ModelFormat = "gguf") =>
  format === "gguf" ? { format, gguf: GGUF, sizeBytes: 2 ** 30, weightsBytes: 2 ** 30 } : { format };
const DEVICES = { apiVersion: "resource.k8s.io/v1" };
/** Examples whose pods need something of a node or of the cluster; workload.cluster.test.ts has the others. */
const ENDS: readonly (readonly [string, object])[] = [
  ["sglang.yaml", { phase: "Ready" }],
  ["vllm-mig.yaml", { phase: "Ready" }],
  // kwok's nodes publish no devices for claims.
  ["tensorrt-llm.yaml", { phase: "WaitingForGPU" }],
  ["vllm-group.yaml", { phase: "Pending", reason: "LeaderWorkerSetMissing" }],
];
const EXAMPLES = path.join(import.meta.dirname, "../../examples/linux");

describe.skipIf(why !== undefined)(`services as pods${why === undefined ? "" : ` (skipped: ${why})`}`, () => {
  let bench: Bench;

  beforeAll(async () => {
    bench = await startBench({
      nodes: [
        { name: "cpu-1" },
        {
          name: "gpu-1",
          taints: [{ key: GPU, value: "present", effect: "NoSchedule" }],
          capacity: { [GPU]: "2" },
        },
      ],
    });
  });
  afterAll(() => bench?.[Symbol.asyncDispose](), 60_000);
  /** The next test gets the nodes' resources, and no host. */
  const used = new Set<string>();
  const agents: AgentSide[] = [];
  afterEach(async () => {
    await Promise.all([...used].map((name) => bench.objects.remove(name, "isvc")));
    used.clear();
    for (const agent of agents.splice(0)) agent.fallSilent();
    await bench.objects.remove("", "hosts");
  });
  /** Answers until the services of the test are gone. */
  const host = async (name: string, options: Partial<AgentSideOptions>) =>
    void agents.push(await bench.agent(name, options));

  async function namespace(name: string): Promise<string> {
    used.add(name);
    await bench.objects.createNamespace(name);
    // kwok does not mount volumes, but the scheduler reads the claim.
    await bench.apply({
      apiVersion: "v1",
      kind: "PersistentVolume",
      metadata: { name: `weights-${name}` },
      spec: {
        capacity: { storage: "1Gi" },
        accessModes: ["ReadOnlyMany"],
        hostPath: { path: "/weights" },
        storageClassName: "",
        claimRef: { namespace: name, name: "metalbridge-model-cache" },
      },
    });
    await bench.apply({
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { name: "metalbridge-model-cache", namespace: name },
      spec: {
        accessModes: ["ReadOnlyMany"],
        storageClassName: "",
        volumeName: `weights-${name}`,
        resources: { requests: { storage: "1Gi" } },
      },
    });
    await bench.model(name, "tiny", { accelerator: "cpu" });
    await bench.model(name, "cuda", { accelerator: "cuda", gpus: 1 });
    return name;
  }

  const until = (ns: string, name: string, expected: object) =>
    bench.serviceUntil(ns, name, ({ status }) => expect(status).toMatchObject(expected));
  const get = (ns: string, what: string) => bench.objects.get(ns, what);
  const untilNone = (ns: string, kind: string) =>
    bench.objects.until(ns, kind, (items) => expect(items).toEqual([]));
  const untilReplicas = (ns: string, count: number) =>
    bench.objects.until(ns, "inferencereplicas", (items) => expect(items).toHaveLength(count));
  const untilEvent = (ns: string, reason: string) =>
    bench.objects.until(ns, "events.events.k8s.io", (items: { reason: string }[]) =>
      expect(items.map((event) => event.reason)).toContain(reason),
    );
  const patch = (ns: string, what: string, change: object) => bench.objects.patch(ns, what, change);

  test("a service becomes Ready, follows its spec, scales and is deleted with everything", async () => {
    const ns = await namespace("life");
    await bench.apply(inferenceService(ns, "chat", { replicas: 2 }));
    await until(ns, "chat", { phase: "Ready", ready: "2/2", runtime: "llamacpp" });
    await bench.objects.until(ns, "endpointslices", (slices: { ports?: object[] }[]) =>
      expect(slices.flatMap(({ ports }) => ports)).toMatchObject([{ port: 8080 }]),
    );

    await patch(ns, "isvc/chat", { spec: { replicas: 3, contextSize: 2048 } });
    await until(ns, "chat", { phase: "Ready", ready: "3/3", updatedReplicas: 3 });
    const { spec } = await get(ns, "deployment/chat");
    expect(spec.template.spec.containers[0].args.join(" ")).toContain("--ctx-size 2048");

    await patch(ns, "isvc/chat", { spec: { suspend: true } });
    await until(ns, "chat", { phase: "Suspended", ready: "0/0" });
    await patch(ns, "isvc/chat", { spec: { suspend: false } });
    await until(ns, "chat", { phase: "Ready", ready: "3/3" });

    await bench.objects.remove(ns, "isvc/chat");
    for (const kind of ["deployments", "services", "pdb", "hpa", "networkpolicies"])
      await untilNone(ns, kind);
  });

  test("pods that fetch the weights have an init container, report its failure, and check the API key", async () => {
    const ns = await namespace("ephemeral");
    const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
    await patch("", `namespace/${ns}`, { metadata: { labels } });
    const message = JSON.stringify({ code: "SourceForbidden", message: "403", isRetryable: false });
    await bench.apply(
      inferenceService(ns, "chat", {
        modelCache: { persistence: "Ephemeral" },
        auth: { secretRef: { name: "keys" } },
        podAnnotations: scriptAnnotations({ outcome: "init-crash", message }),
      }),
    );
    const { status } = await until(ns, "chat", { phase: "Degraded", reason: "SourceForbidden" });
    expect(getCondition(status?.conditions, "Degraded")?.message).toContain("403");
    await patch(ns, "isvc/chat", { spec: { podAnnotations: null } });
    const ready = await until(ns, "chat", { phase: "Ready" });
    expect(conditionsIn(ready.status)).toMatchObject({
      KeyRequired: "True EngineChecksKeys",
      CPUFallback: "False NoGPURequested",
    });
    const { spec } = (await get(ns, "deployment/chat")).spec.template;
    expect(spec.volumes[0]).toEqual({ name: "cache", emptyDir: { sizeLimit: "5Gi" } });
    const [engine] = spec.containers;
    expect(engine.args.join(" ")).toMatch(/--model \/models\/model-[0-9a-f]+\/tiny\.gguf/);
    // 4 GiB of weights, and what the engine needs beside them.
    expect(Number.parseInt(engine.resources.requests.memory, 10)).toBeGreaterThan(4096);
  });

  test("an engine that falls back to the CPU is a condition with an Event; its log is read once", async () => {
    const ns = await namespace("fallback");
    const log = "warning: no usable GPU found, --gpu-layers option will be ignored\n";
    await using kubelet = await serveLogs(bench.cluster.kubectl, "gpu-1", () => log);
    await bench.apply(inferenceService(ns, "chat", { modelRef: "cuda" }));
    await bench.serviceUntil(ns, "chat", ({ status }) =>
      expect(conditionsIn(status)).toMatchObject({
        Ready: "True InferenceReady",
        CPUFallback: "True NoLayersOnGPU",
        KeyRequired: "False NoAuth",
      }),
    );
    await untilEvent(ns, "NoLayersOnGPU");
    await patch(ns, "isvc/chat", { metadata: { annotations: { touched: "1" } }, spec: { priority: "high" } });
    await until(ns, "chat", { observedGeneration: 2 });
    const { items } = await get(ns, "pods");
    for (const { metadata } of items)
      expect(kubelet.asked.filter((url) => url.includes(metadata.name)).length).toBeLessThanOrEqual(1);
  });

  test("pods beyond the GPUs wait in the queue: by priority, then age, right after each change", async () => {
    const ns = await namespace("queue");
    const one = (name: string, spec: object = {}) =>
      bench.apply(inferenceService(ns, name, { modelRef: "cuda", ...spec }));
    await one("first");
    await one("second");
    await until(ns, "first", { phase: "Ready" });
    await until(ns, "second", { phase: "Ready" });
    await one("third");
    await until(ns, "third", {
      phase: "WaitingForGPU",
      reason: "InsufficientGPU",
      queuePosition: 1,
      waitingFor: `${GPU}: 1`,
    });
    await one("fourth");
    await until(ns, "fourth", { phase: "WaitingForGPU", queuePosition: 2 });
    // Nothing may be preempted, so that it waits as well, ahead of both.
    await bench.objects.remove(ns, "isvc/third");
    await until(ns, "fourth", { queuePosition: 1 });
    await bench.objects.remove(ns, "isvc/first");
    await until(ns, "fourth", { phase: "Ready" });
    // A higher priority preempts a lower one.
    await one("urgent", { priority: "high" });
    await until(ns, "urgent", { phase: "Ready" });
    await bench.objects.until(ns, "isvc", (all: InferenceService[]) => {
      const others = all.filter(({ metadata }) => metadata.name !== "urgent");
      expect(others.map(({ status }) => status?.phase).sort()).toEqual(["Ready", "WaitingForGPU"]);
    });
  });

  testRefusals(() => bench, { namespace, until, get, patch, untilEvent });

  test("an autoscaler scales the service without a fall to one, and leaves its replicas when it goes", async () => {
    const ns = await namespace("scaled");
    await bench.apply(inferenceService(ns, "chat", { replicas: 3 }));
    await until(ns, "chat", { phase: "Ready", ready: "3/3" });
    const { resourceVersion } = (await get(ns, "deployment/chat")).metadata;
    await patch(ns, "isvc/chat", { spec: { autoscaling: { minReplicas: 2, maxReplicas: 6 } } });
    await bench.objects.until(ns, "hpa/chat", ({ spec: { maxReplicas, scaleTargetRef } }) =>
      expect([maxReplicas, scaleTargetRef.kind]).toEqual([6, "InferenceService"]),
    );
    await bench.objects.scale(ns, "isvc/chat", 4);
    await until(ns, "chat", { phase: "Ready", ready: "4/4" });
    await patch(ns, "isvc/chat", { spec: { autoscaling: null } });
    await untilNone(ns, "hpa");
    await until(ns, "chat", { phase: "Ready", ready: "4/4" });
    const seen = await changesSince(bench, DEPLOYMENTS, { name: "chat", namespace: ns, resourceVersion });
    expect(seen.map(({ spec }) => spec.replicas)).not.toContain(1);
    expect(seen.at(-1)?.spec.replicas).toBe(4);
  });

  test("with placement.on Auto, replicas that do not fit on hosts run in pods, and return once there is room", async () => {
    const ns = await namespace("auto");
    await bench.model(ns, "big", { isOnVolume: true, gib: 20 });
    await host("mac-a", { address: "192.168.7.41", budgetGib: 30 });
    await bench.apply(
      inferenceService(ns, "chat", { modelRef: "big", replicas: 2, placement: { on: "Auto" } }),
    );
    const { status } = await until(ns, "chat", { phase: "Ready", ready: "2/2" });
    expect(status?.message).toContain("1 of them in pods");
    expect(await bench.replicas(ns)).toHaveLength(1);
    expect((await get(ns, "deployment/chat")).spec.replicas).toBe(1);
    await bench.objects.until(ns, "endpointslices", (slices: KubeObject[]) =>
      expect(
        new Set(slices.map(({ metadata }) => metadata.labels?.["endpointslice.kubernetes.io/managed-by"])),
      ).toEqual(new Set(["agent.metalbridge.dev", "endpointslice-controller.k8s.io"])),
    );

    await bench.model(ns, "mac", { gib: 2 });
    await bench.apply(inferenceService(ns, "on-host", { modelRef: "mac" }));
    await bench.apply(inferenceService(ns, "in-pods", { replicas: 2 }));
    await bench.apply(inferenceService(ns, "wide", { modelRef: "cuda", resources: { gpu: 8 } }));
    const npu = { accelerator: "cuda", gpu: { count: 1, resourceName: "example.com/npu" } };
    await bench.apply({
      apiVersion: "metalbridge.dev/v1alpha1",
      kind: "Model",
      metadata: { name: "npu", namespace: ns },
      spec: { source: "https://models.example/tiny.gguf", hardware: npu },
    });
    await bench.apply(inferenceService(ns, "unknown", { modelRef: "npu" }));
    await until(ns, "on-host", { phase: "Ready" });
    await until(ns, "in-pods", { phase: "Ready" });
    // More than any node has, and a resource that no node knows.
    const waiting = { phase: "WaitingForGPU", updatedReplicas: 1 };
    await until(ns, "wide", { ...waiting, waitingFor: `${GPU}: 8`, queuePosition: 1 });
    await until(ns, "unknown", { phase: "Pending", reason: "ModelNotReady" });
    const cached = { claimName: "metalbridge-model-cache", folder: "npu", file: "tiny.gguf" };
    await bench.markReady(ns, "npu", {
      format: "gguf",
      files: ["tiny.gguf"],
      cache: { phase: "Ready", reason: "Downloaded", message: "", ...cached },
    });
    await until(ns, "unknown", { ...waiting, waitingFor: "example.com/npu: 1", queuePosition: 2 });
    const table = await bench.cluster.kubectl(["get", "isvc", "-n", ns]);
    expect(
      table
        .trimEnd()
        .split("\n")
        .map((line) => line.replace(/ +[^ ]+$/, "")),
    ).toEqual([
      "NAME      PHASE           READY   UP-TO-DATE   MODEL   RUNTIME    ON           ENDPOINT",
      "chat      Ready           2/2     2            big     llamacpp   Hosts+Pods   http://chat.auto.svc:8080/v1/chat/completions",
      "in-pods   Ready           2/2     2            tiny    llamacpp   Pods         http://in-pods.auto.svc:8080/v1/chat/completions",
      "on-host   Ready           1/1     1            mac     llamacpp   Hosts        http://on-host.auto.svc:8080/v1/chat/completions",
      "unknown   WaitingForGPU   0/1     1            npu     llamacpp   Pods         http://unknown.auto.svc:8080/v1/chat/completions",
      "wide      WaitingForGPU   0/1     1            cuda    llamacpp   Pods         http://wide.auto.svc:8080/v1/chat/completions",
    ]);
    await bench.objects.remove(ns, "isvc/on-host", "isvc/in-pods", "isvc/wide", "isvc/unknown");

    await host("mac-b", { address: "192.168.7.42", budgetGib: 30 });
    await bench.objects.until(ns, "deployment/chat", ({ spec }) => expect(spec.replicas).toBe(0));
    await untilReplicas(ns, 2);
    await until(ns, "chat", { phase: "Ready", ready: "2/2" });
  });

  test("a Linux host serves a Model for another accelerator where the service asks for hosts", async () => {
    const ns = await namespace("linux-host");
    await host("linux-1", { address: "192.168.7.51" });
    await bench.apply(inferenceService(ns, "chat", { placement: { on: "Hosts" } }));
    await until(ns, "chat", { phase: "Ready", ready: "1/1" });
    expect(await bench.replicas(ns)).toHaveLength(1);
    expect((await get(ns, "deployments")).items).toEqual([]);
  });

  test("a service that moves from hosts to pods serves on hosts until its pods are Ready, and back", async () => {
    const ns = await namespace("moves");
    await host("mac-1", { address: "192.168.7.31" });
    await bench.model(ns, "both", { isOnVolume: true });
    await bench.apply(inferenceService(ns, "chat", { modelRef: "both" }));
    await until(ns, "chat", { phase: "Ready", runtime: "llamacpp" });
    expect(await bench.replicas(ns)).toHaveLength(1);
    await patch(ns, "isvc/chat", {
      spec: { placement: { on: "Pods" }, podAnnotations: scriptAnnotations({ outcome: "never-ready" }) },
    });
    await until(ns, "chat", { phase: "Progressing", desiredReplicas: 1, readyReplicas: 0 });
    await bench.objects.until(ns, "pods", (pods) => expect(pods).toHaveLength(1));
    expect(await bench.replicas(ns)).toHaveLength(1);
    await patch(ns, "isvc/chat", { spec: { podAnnotations: null } });
    await until(ns, "chat", { phase: "Ready" });
    await untilReplicas(ns, 0);
    await patch(ns, "isvc/chat", { spec: { placement: { on: null } } });
    await untilReplicas(ns, 1);
    await untilNone(ns, "deployments");

    // The accelerator of the Model changes while it serves, and its weights have to be downloaded to a volume first.
    await bench.markReady(ns, "both", {
      cache: {
        phase: "Downloading",
        reason: "Downloading",
        message: "1 of 4 GiB",
        claimName: "c",
        folder: "f",
      } as never,
    });
    await patch(ns, "model/both", { spec: { hardware: { accelerator: "cuda", gpu: { count: 1 } } } });
    const { status } = await until(ns, "chat", { phase: "Pending", reason: "ModelNotReady", on: "Hosts" });
    expect(status?.message).toContain(
      "1 existing replicas on hosts serve until the service is Ready on pods",
    );
    expect(conditionsIn(status)).toMatchObject({ Available: "True ServedElsewhere" });
    expect(await bench.replicas(ns)).toHaveLength(1);
    await bench.model(ns, "both", { accelerator: "cuda", gpus: 1 });
    await until(ns, "chat", { phase: "Ready", on: "Pods" });
    await untilReplicas(ns, 0);
  });

  describe("examples/linux", () => {
    beforeAll(async () => {
      const room = { cpu: "256", memory: "4Ti" };
      const taint = (key: string) => [{ key, value: "present", effect: "NoSchedule" }];
      await bench.addNode({
        name: "nvidia-1",
        taints: taint(GPU),
        capacity: { ...room, "nvidia.com/mig-1g.10gb": "7" },
      });
      const amd = "amd.com/gpu";
      await bench.addNode({ name: "amd-1", taints: taint(amd), capacity: { ...room, [amd]: "8" } });
      const selectors = [{ cel: { expression: "device.driver == 'gpu.nvidia.com'" } }];
      await bench.apply({ ...DEVICES, kind: "DeviceClass", metadata: { name: "gpu" }, spec: { selectors } });
    });

    test.each(ENDS)("%s ends as it should", async (file, expected) => {
      const ns = await namespace(`example-${file.replace(".yaml", "")}`);
      const objects = parseAllDocuments(readFileSync(path.join(EXAMPLES, file), "utf8")).map(
        (document) => document.toJS() as Written,
      );
      for (const object of objects)
        await bench.apply({ ...object, metadata: { ...object.metadata, namespace: ns } });
      for (const { kind, metadata, spec } of objects) {
        if (kind !== "Model") continue;
        const cache = { claimName: "metalbridge-model-cache", folder: "weights", file: "main.gguf" };
        await bench.markReady(ns, metadata.name, {
          ...readFacts(spec.format),
          files: ["main.gguf"],
          cache: { phase: "Ready", reason: "Downloaded", message: "", ...cache },
        });
      }
      const requests = [{ name: "gpus", exactly: { deviceClassName: "gpu", count: 2 } }];
      const metadata = { name: "two-gpus", namespace: ns };
      const spec = { spec: { devices: { requests } } };
      await bench.apply({ ...DEVICES, kind: "ResourceClaimTemplate", metadata, spec });
      const service = objects.find(({ kind }) => kind === "InferenceService");
      await until(ns, service?.metadata.name ?? "", expected);
    });
  });
});

/** By type, as `<status> <reason>`. */
function conditionsIn(status: InferenceServiceStatus | undefined): Record<string, string> {
  const conditions = status?.conditions ?? [];
  return Object.fromEntries(conditions.map(({ type, status, reason }) => [type, `${status} ${reason}`]));
}

interface Written {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: { readonly format?: ModelFormat };
}
