import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { getCondition } from "../../../src/api/conditions.ts";
import type { Model, ModelStatus } from "../../../src/api/model.ts";
import { connect, type KubeConnection } from "../../../src/kube/client/connect.ts";
import { createClient } from "../../../src/kube/client/create-client.ts";
import { JOBS, NETWORK_POLICIES, PERSISTENT_VOLUME_CLAIMS, PODS } from "../../../src/kube/kinds.ts";
import type { KubeClient } from "../../../src/kube/types.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import { serveLogs } from "../../../test/bed/kubelet-logs.ts";
import { whyNoSimulatedNodes } from "../../../test/bed/kwok.ts";
import type { PodScript } from "../../../test/bed/kwok-stages.ts";
import { oneLinuxCluster } from "../../../test/cluster/linux-cluster.ts";
import type { TestNamespace } from "../../../test/cluster/namespace.ts";
import { quietLog } from "../../../test/cluster/quiet-log.ts";
import { headerBytes, ranged, serveModel, TENSOR_BYTES } from "../../../test/fixtures/model-server.ts";
import { runContainer } from "../../../test/fixtures/run-container.ts";
import { parseControllerConfig } from "../../config.ts";
import { runController } from "../../main.ts";
import { desiredCacheOf } from "../../pods/workload/cache-eligibility.ts";
import { fetchJobName, weightsOnVolume } from "../../pods/workload/model-cache.ts";
import { inNamespace } from "./fixtures/namespace.ts";
import { claimOf, diskFor } from "./fixtures/volumes.ts";

const why = whyNoSimulatedNodes();
const GPU = "nvidia.com/gpu";
const CLAIM = "metalbridge-model-cache";
const IMAGE = "registry.example.com/metalbridge:1.0.0";
const OURS = { "app.kubernetes.io/managed-by": "metalbridge" };
/** What a Job reports that found everything. */
const FETCHED = JSON.stringify({ code: "Fetched", sizeBytes: 5, file: "views/a/m.gguf", files: ["m.gguf"] });

describe.skipIf(why !== undefined)(`the model cache${why === undefined ? "" : ` (${why})`}`, () => {
  const shared = oneLinuxCluster([{ name: "cpu-1" }]);
  const stop = new AbortController();
  let running: Promise<void>;
  let connection: KubeConnection;
  let client: KubeClient;
  let namespace: TestNamespace;

  beforeAll(async () => {
    const { kubeconfig } = shared();
    connection = await connect({ kubeconfigPath: kubeconfig });
    client = createClient(connection);
    const settings = {
      image: IMAGE,
      cacheStorageClass: "manual",
      allowLoopback: true,
      cacheAccessMode: "ReadWriteMany",
    };
    const config = parseControllerConfig({ kubeconfig, healthPort: 0, ...settings });
    running = runController({ config, log: quietLog, signal: stop.signal });
  });
  afterAll(async () => {
    stop.abort();
    await running;
    connection?.close();
  });
  beforeEach(async () => {
    namespace = await shared().namespace();
    const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
    await shared().objects.patch("", `namespace/${namespace.name}`, { metadata: { labels } });
  });
  afterEach(() => namespace[Symbol.asyncDispose]());

  const { apply, applySecret, get, list, applyModel, volume, finish } = inNamespace(() => ({
    cluster: shared(),
    namespace: namespace.name,
    client,
  }));
  const statusUntil = (name: string, check: (status: ModelStatus | undefined) => void): Promise<Model> =>
    shared().objects.until(namespace.name, `model/${name}`, (model: Model): Model => {
      check(model.status);
      return model;
    });
  const script = (pods: PodScript) => shared().nodes.direct(namespace.name, pods, OURS);
  const podUntil = (phase: string): Promise<Pod> =>
    shared().objects.until(namespace.name, "pods", (pods: readonly Pod[]): Pod => {
      const pod = pods.find(({ status }) => status?.phase === phase);
      if (pod === undefined) throw new Error(`no pod is ${phase}`);
      return pod;
    });

  test("the command of the Job downloads the weights to the volume, and its result makes the Model Ready", async () => {
    const content = Buffer.alloc(headerBytes(10).length + TENSOR_BYTES);
    content.set(headerBytes(10));
    const server = await serveModel((request, response) => {
      if (request.headers.authorization !== "Bearer t0ken") return void response.writeHead(401).end();
      response.writeHead(200, { etag: '"v1"', "content-length": content.length }).end(content);
    });
    await script({ outcome: "ready" });
    await volume(CLAIM);
    await applySecret("t0ken");
    const source = `${server.url}/m.gguf`;
    await applyModel("good", { source, sourceSecretRef: { name: "hub" } });
    await statusUntil("good", (status) =>
      expect(status).toMatchObject({
        phase: "Downloading",
        reason: "Downloading",
        cache: { claimName: CLAIM },
      }),
    );
    const pod = await podUntil("Running");
    const [container] = pod.spec.containers;
    expect(await list(NETWORK_POLICIES)).toHaveLength(1);
    const disk = mkdtempSync(path.join(tmpdir(), "mb-cache-"));
    onTestFinished(() => rmSync(disk, { recursive: true, force: true }));
    expect(container).toMatchObject({
      image: IMAGE,
      envFrom: [{ prefix: "SOURCE_", secretRef: { name: "hub" } }],
    });
    if (container === undefined) throw new Error("no container");
    const ended = await runContainer(container, { "/cache": disk }, { SOURCE_HF_TOKEN: "t0ken" });
    expect(ended.exitCode).toBe(0);
    await finish(pod, { outcome: "complete", message: ended.message });
    const ready = await statusUntil("good", (status) => expect(status?.phase).toBe("Ready"));
    expect(ready.status).toMatchObject({
      reason: "Downloaded",
      sizeBytes: content.length,
      weightsBytes: TENSOR_BYTES,
      files: ["m.gguf"],
      format: "gguf",
      gguf: { architecture: "llama", layerCount: 2 },
    });
    expect(getCondition(ready.status?.conditions, "ModelTransferHealthy")).toMatchObject({ status: "True" });
    const weights = weightsOnVolume(ready);
    expect(weights?.claimName).toBe(CLAIM);
    expect(readFileSync(path.join(disk, weights?.folder ?? "", weights?.file ?? ""))).toEqual(content);

    // The same source for another Model: the result of the same Job.
    await applyModel("twin", { source, sourceSecretRef: { name: "hub" } });
    await statusUntil("twin", (status) => expect(status?.phase).toBe("Ready"));
    expect(await list(JOBS)).toHaveLength(1);

    await shared().objects.remove(namespace.name, "model/good", "model/twin");
    for (const kind of ["jobs", "networkpolicies"])
      await shared().objects.until(namespace.name, kind, (items) => expect(items).toEqual([]));
    expect((await get(PERSISTENT_VOLUME_CLAIMS, CLAIM))?.metadata.deletionTimestamp).toBeUndefined();
  });

  test("the Model reports the cause of a failed download, and a changed spec gets a new Job immediately", async () => {
    const message = JSON.stringify({
      code: "SourceUnauthorized",
      message: "answered 401",
      isRetryable: false,
    });
    await script({ outcome: "fail", exitCode: 1, message });
    await volume(CLAIM);
    await applyModel("closed", { source: "hf://org/closed/m.gguf" });
    const failed = await statusUntil("closed", (status) =>
      expect(status).toMatchObject({ phase: "Failed", reason: "SourceUnauthorized", cache: { attempts: 1 } }),
    );
    expect(failed.status?.message).toMatch(
      /^answered 401; put valid credentials .*; will be retried after 2\d{3}-/,
    );
    expect(getCondition(failed.status?.conditions, "ModelTransferHealthy")).toMatchObject({
      status: "False",
      reason: "SourceUnauthorized",
    });
    const [before] = await list(JOBS);
    await script({ outcome: "complete", message: FETCHED });
    await applyModel("closed", { source: "hf://org/closed/m.gguf", sourceSecretRef: { name: "hub" } });
    await statusUntil("closed", (status) => expect(status?.phase).toBe("Ready"));
    expect((await list(JOBS)).map(({ metadata }) => metadata.uid)).not.toContain(before?.metadata.uid);
  });

  test("a Job whose credentials were refused is retried because their Secret has changed, not after the delay", async () => {
    const server = await serveModel((request, response) => {
      const isFresh = request.headers.authorization === "Bearer fresh";
      response.writeHead(isFresh ? 200 : 403, { etag: '"v1"' }).end(isFresh ? headerBytes(10) : "");
    });
    const message = JSON.stringify({ code: "SourceForbidden", message: "answered 403", isRetryable: false });
    await script({ outcome: "fail", exitCode: 1, message });
    await volume(CLAIM);
    await applySecret("stale");
    await applyModel("gated", { source: `${server.url}/m.gguf`, sourceSecretRef: { name: "hub" } });
    await statusUntil("gated", (status) =>
      expect(status).toMatchObject({ phase: "Failed", reason: "SourceForbidden", cache: { attempts: 1 } }),
    );
    await script({ outcome: "complete", message: FETCHED });
    const [before] = await list(JOBS);
    await applySecret("fresh");
    await statusUntil("gated", (status) => expect(status?.phase).toBe("Ready"));
    const [job] = await list(JOBS);
    expect(job?.metadata.uid).not.toBe(before?.metadata.uid);
    // After the delay it would be the second.
    expect(job?.metadata.annotations?.["metalbridge.dev/attempt"]).toBe("1");
  });

  test("a Job that finishes without a result is reported with the status of its pod", async () => {
    await script({ outcome: "fail", exitCode: 70 });
    await volume(CLAIM);
    await applyModel("loops", { source: "hf://org/loops/m.gguf" });
    await statusUntil("loops", (status) =>
      expect(status).toMatchObject({
        phase: "Failed",
        reason: "DownloadFailed",
        message: expect.stringMatching(/PodFailurePolicy.*exit code 70/),
      }),
    );
  });

  test("a missing storage class is reported, and the download starts once there is a volume", async () => {
    await script({ outcome: "complete", message: FETCHED });
    await applyModel("waits", { source: "hf://org/waits/m.gguf" });
    await statusUntil("waits", (status) =>
      expect(status).toMatchObject({
        phase: "Pending",
        reason: "UnbindableModelCache",
        message: expect.stringContaining("storage class manual does not exist"),
      }),
    );
    expect(await list(JOBS)).toEqual([]);
    await volume(CLAIM);
    await statusUntil("waits", (status) => expect(status?.phase).toBe("Ready"));
  });

  test("a pod that fits no node is reported, and a lower request replaces its Job", async () => {
    await script({ outcome: "complete", message: FETCHED });
    await volume(CLAIM);
    const source = "hf://org/large/m.gguf";
    await applyModel("large", { source, resources: { cpu: "1000" } });
    await statusUntil("large", (status) =>
      expect(status).toMatchObject({
        phase: "Pending",
        reason: "DownloadUnschedulable",
        message: expect.stringContaining("Insufficient cpu"),
      }),
    );
    await applyModel("large", { source, resources: { cpu: "1" } });
    await statusUntil("large", (status) => expect(status?.phase).toBe("Ready"));
  });

  test.each([
    ["pods", "cannot create its pod"],
    ["count/persistentvolumeclaims", "create PersistentVolumeClaim metalbridge-model-cache"],
  ])("a ResourceQuota for %s is named", async (resource, message) => {
    await apply({
      apiVersion: "v1",
      kind: "ResourceQuota",
      metadata: { name: "none" },
      spec: { hard: { [resource]: "0" } },
    });
    await shared().objects.until(namespace.name, "quota/none", ({ status = {} }) => {
      expect(status.hard).toEqual({ [resource]: "0" });
      expect(Object.keys(status.used ?? {})).toEqual([resource]);
    });
    await volume(CLAIM);
    await applyModel("limited", { source: "hf://org/limited/m.gguf" });
    await statusUntil("limited", (status) =>
      expect(status).toMatchObject({ reason: "QuotaExceeded", message: expect.stringContaining(message) }),
    );
  });

  test("a claim and a Job of other owners with these names stay unchanged and are reported", async () => {
    await apply(claimOf(CLAIM));
    await applyModel("mine", { source: "hf://org/mine/m.gguf" });
    await statusUntil("mine", (status) =>
      expect(status).toMatchObject({ reason: "ObjectNameTaken", message: expect.stringContaining(CLAIM) }),
    );
    expect(await list(JOBS)).toEqual([]);

    const model = { metadata: { name: "other" }, spec: { source: "pvc://weights/m.gguf" } } as Model;
    const desired = desiredCacheOf(
      { ...model, spec: { ...model.spec, hardware: { accelerator: "cpu" } } },
      [],
      parseControllerConfig({}),
    );
    if (desired.at !== "volume") throw new Error("not on a volume");
    const name = fetchJobName(desired);
    const template = { spec: { restartPolicy: "Never", containers: [{ name: "c", image: "i" }] } };
    await apply({
      apiVersion: "batch/v1",
      kind: "Job",
      metadata: { name },
      spec: { suspend: true, template },
    });
    await volume("weights");
    await apply(claimOf("weights"));
    await applyModel("other", { source: "pvc://weights/m.gguf" });
    await statusUntil("other", (status) =>
      expect(status).toMatchObject({ reason: "ObjectNameTaken", message: expect.stringContaining(name) }),
    );
    expect((await get(JOBS, name))?.spec.template.spec.containers[0]?.image).toBe("i");
  });

  test("weights of a pvc:// source are used in place, once their claim exists and is bound", async () => {
    await script({
      outcome: "complete",
      message: JSON.stringify({ ...JSON.parse(FETCHED), file: "llms/m.gguf" }),
    });
    await applyModel("placed", { source: "pvc://weights/llms/m.gguf" });
    await statusUntil("placed", (status) =>
      expect(status).toMatchObject({ phase: "Pending", reason: "VolumeClaimNotFound" }),
    );
    await apply(claimOf("weights"));
    await statusUntil("placed", (status) =>
      expect(status?.reason).toMatch(/^(VolumeClaimPending|UnbindableModelCache)$/),
    );
    await volume("weights");
    const ready = await statusUntil("placed", (status) => expect(status?.phase).toBe("Ready"));
    expect(weightsOnVolume(ready)).toMatchObject({ claimName: "weights", folder: "", file: "llms/m.gguf" });
    const [job] = await list(JOBS);
    expect(job?.spec.template.spec.volumes).toEqual([
      { name: "cache", persistentVolumeClaim: { claimName: "weights", readOnly: true } },
    ]);
  });

  test("a volume that only one node can mount follows the pod to its GPU, and a replica that does not fit there is reported", async () => {
    const header = headerBytes(10);
    const server = await serveModel(ranged(header, header.length + TENSOR_BYTES));
    const taints = [{ key: GPU, value: "present", effect: "NoSchedule" }] as const;
    for (const name of ["gpu-1", "gpu-2"])
      await shared().nodes.add({ name, taints, capacity: { [GPU]: "1" } });
    const once = { accessModes: ["ReadWriteOnce"], storageClassName: "kwok-local" };
    await apply(claimOf("once", once));
    const hardware = { accelerator: "cuda", gpu: { count: 1 } };
    await applyModel("large", { source: `${server.url}/m.gguf`, hardware });
    const service = (replicas: number) =>
      apply({
        apiVersion: "metalbridge.dev/v1alpha1",
        kind: "InferenceService",
        metadata: { name: "chat" },
        spec: { modelRef: "large", replicas, modelCache: { claimName: "once" } },
      });
    const serviceUntil = (expected: object) =>
      shared().objects.until(namespace.name, "isvc/chat", ({ status }) =>
        expect(status).toMatchObject(expected),
      );
    await service(1);
    await serviceUntil({ phase: "Ready", ready: "1/1" });
    const model = await statusUntil("large", (status) =>
      expect(status).toMatchObject({ phase: "Ready", reason: "SourceResolved", cache: { filledBy: "Pods" } }),
    );
    expect(getCondition(model.status?.conditions, "ModelTransferHealthy")).toMatchObject({
      status: "Unknown",
      reason: "DownloadedByPods",
    });
    expect(await list(JOBS)).toEqual([]);
    const [pod] = await list(PODS);
    expect(pod?.spec.nodeName).toMatch(/^gpu-/);
    expect(pod?.spec.initContainers).toMatchObject([
      { name: "fetch", volumeMounts: [{ mountPath: "/cache" }] },
    ]);
    await service(2);
    await serviceUntil({
      phase: "WaitingForCapacity",
      reason: "UnbindableModelCache",
      ready: "1/2",
      message: expect.stringMatching(/1 pod waits for a node: .*use access mode ReadWriteMany or/),
    });
  });

  test("a network disk that one node mounts at a time is filled by a Job before its service has a pod", async () => {
    await script({ outcome: "complete", message: FETCHED });
    await apply(claimOf("disk", { accessModes: ["ReadWriteOnce"] }));
    await apply({
      apiVersion: "metalbridge.dev/v1alpha1",
      kind: "InferenceService",
      metadata: { name: "chat" },
      spec: { modelRef: "small", modelCache: { claimName: "disk" } },
    });
    const header = headerBytes(10);
    const server = await serveModel(ranged(header, header.length + TENSOR_BYTES));
    await applyModel("small", { source: `${server.url}/m.gguf` });
    await statusUntil("small", (status) => expect(status?.reason).toBe("UnbindableModelCache"));
    expect(await list(JOBS)).toEqual([]);
    await apply(diskFor(namespace.name, "disk"));
    const ready = await statusUntil("small", (status) =>
      expect(status).toMatchObject({ phase: "Ready", reason: "Downloaded" }),
    );
    expect(ready.status?.cache).toMatchObject({ claimName: "disk", singleNode: true });
    expect(await list(JOBS)).toHaveLength(1);
  });

  test("progress comes from the log of the running pod", async () => {
    const lines = ["no JSON", '{"bytes":1073741824,"totalBytes":4294967296}'].join("\n");
    await shared().nodes.add({ name: "logs-1", labels: { logs: "1" } });
    await using _ = await serveLogs(shared().kubectl, "logs-1", () => `${lines}\n`);
    await script({ outcome: "ready" });
    await volume(CLAIM, "logs-1");
    await applyModel("counted", { source: "hf://org/counted/m.gguf" });
    await statusUntil("counted", (found) =>
      expect(found).toMatchObject({
        phase: "Downloading",
        message: "downloading: 1 GiB of 4 GiB (25%)",
        cache: { bytes: 2 ** 30, totalBytes: 2 ** 32 },
      }),
    );
  });
});
