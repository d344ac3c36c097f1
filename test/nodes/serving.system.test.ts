/** Services in pods of two real nodes, from `kubectl apply` to deletion, and what clients see while pods are replaced. */
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  benchmarkJob,
  benchmarkJobName,
  benchmarkLabel,
  type JobState,
  readBenchmarkJob,
} from "../../controller/options/benchmark/job.ts";
import { OUR_IMAGE } from "../../scripts/images/for-tests.ts";
import { MODELS } from "../../src/api/kinds.ts";
import { DEPLOYMENTS, ENDPOINT_SLICES, JOBS, NODES, PODS, SERVICES } from "../../src/kube/kinds.ts";
import type { Pod } from "../../src/kube/workload-objects.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { lostOf } from "../bed/load/clients.ts";
import { whyNoRealNode } from "../bed/node/parts.ts";
import { localVolume } from "../bed/node/volumes.ts";
import { NAMESPACE } from "../bed/services.ts";
import { until } from "../bed/until.ts";
import { type PodsBed, startPodsBed } from "./bed.ts";

const fetchSettings = {
  image: OUR_IMAGE,
  imagePullSecrets: [],
  cacheSize: "1Gi",
  cacheAccessMode: "ReadWriteOnce",
  hfEndpoint: "https://huggingface.co",
  allowLoopback: false,
  allowPrivate: false,
  allowNetworks: ["10.78.0.0/16"],
} as const;

/** Tokens of an answer that takes several seconds: these weights never end a sentence. */
const LONG = 400;

describeUnless(whyNoRealNode(), "serving in pods", () => {
  let bed: PodsBed;
  beforeAll(async () => {
    bed = await startPodsBed({
      nodes: [
        { name: "node-1", zone: "a" },
        { name: "node-2", zone: "a" },
      ],
      model: { endless: true, layers: 8, embeddingSize: 256, contextLength: 8192 },
    });
    const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
    await bed.farm.objects.patch("", `namespace/${NAMESPACE}`, { metadata: { labels } });
    for (const { name } of bed.cluster.nodes)
      await localVolume(bed.farm.objects, bed.cluster.node(name), { size: "4Gi" });
  });
  afterAll(() => bed?.[Symbol.asyncDispose]());

  const node = () => bed.cluster.node("node-2");
  const uid = ({ metadata }: Pod) => metadata.uid;

  test("a service answers through its ClusterIP, from weights that its pod fetched to a claim that was bound late", async ({
    annotate,
  }) => {
    const started = performance.now();
    await bed.apply("chat", { contextSize: 8192, parallelSlots: 2, rollout: { drainSeconds: 30 } });
    await bed.until("chat", { phase: "Ready", ready: "1/1" });
    await annotate(`ready ${Math.round(performance.now() - started)} ms after kubectl apply`);
    expect(await bed.ask(node(), "chat")).toContain("choices");
    const [pod] = await bed.pods("chat");
    const since = (type: string) =>
      Date.parse(pod?.status?.conditions?.find((one) => one.type === type)?.lastTransitionTime ?? "");
    await annotate(`ready ${since("Ready") - since("Initialized")} ms after its weights were there`);
    expect(await bed.kubectl(["logs", "-l", "metalbridge.dev/service=chat", "-c", "fetch"])).not.toBe("");
  });

  test("a second replica runs on the node of the claim, and reads the weights that are there", async () => {
    await bed.patch("isvc/chat", { spec: { replicas: 2 } });
    await bed.until("chat", { phase: "Ready", ready: "2/2" });
    const pods = await bed.pods("chat");
    expect(new Set(pods.map(({ spec }) => spec.nodeName)).size).toBe(1);
  });

  test("a Job measures the model on the node of the claim, and an engine that exits fails it", async ({
    annotate,
  }) => {
    const { objects } = bed.farm;
    const [pod] = await bed.pods("chat");
    const { status, ...model } = await objects.read(MODELS, "chat");
    // A prompt of 4096 tokens would take the machines of tests a minute, and this engine refuses it.
    const gguf = { ...status.gguf, contextLength: 1_024 };
    const order = {
      model: { ...model, status: { ...status, gguf } },
      runtime: "llamacpp",
      plan: { warmups: 0, runs: 2, tokens: 16 },
      node: await objects.read(NODES, pod?.spec.nodeName ?? ""),
    } as const;
    const settings = { images: {}, fetch: fetchSettings };
    const ended = async (key: string, more: readonly string[] = []): Promise<JobState> => {
      const job = benchmarkJob({ ...order, key }, settings);
      // The controller deletes Jobs of a Model that it did not plan.
      job.metadata.ownerReferences = [];
      const engine = job.spec.template.spec.initContainers?.at(-1);
      if (engine !== undefined) engine.args = [...(engine.args ?? []), ...more];
      await objects.create(job);
      let state: JobState = { at: "running" };
      await until(async () => {
        const pods = await objects.list(PODS, `metalbridge.dev/benchmark=${benchmarkLabel(key)}`);
        state = readBenchmarkJob(await objects.read(JOBS, benchmarkJobName(key)), pods);
        expect(["done", "failed"]).toContain(state.at);
      });
      await bed.kubectl(["delete", "job", job.metadata.name, "-n", NAMESPACE]);
      return state;
    };
    const done = await ended("0123456789abcdef-cpu-test");
    await annotate(JSON.stringify(done));
    expect(done).toMatchObject({ at: "done", measurement: { tool: "requests", prompt512: {} } });
    expect(done).not.toHaveProperty("measurement.prompt4096");
    const failed = await ended("fedcba9876543210-cpu-test", ["--no-such-flag"]);
    await annotate(JSON.stringify(failed));
    expect(failed).toMatchObject({ at: "failed", code: "BenchmarkEngineFailed" });
  });

  test("a change under load replaces every pod, and no request is lost", async () => {
    const before = (await bed.pods("chat")).map(uid);
    await using clients = await bed.clients(node(), "chat");
    await clients.untilEachAsked(2);
    await bed.patch("isvc/chat", { spec: { contextSize: 4096 } });
    await bed.until("chat", { phase: "Ready", ready: "2/2", updatedReplicas: 2, observedGeneration: 3 });
    await until(async () => {
      const uids = (await bed.pods("chat")).map(uid);
      expect(uids.filter((one) => before.includes(one))).toEqual([]);
    });
    await clients.untilEachAsked(2);
    const asked = await clients.stop();
    expect(lostOf(asked)).toEqual([]);
  });

  test("a pod that is deleted during a stream ends it first, and is gone soon after", async ({
    annotate,
  }) => {
    await bed.patch("isvc/chat", { spec: { replicas: 1 } });
    await bed.until("chat", { phase: "Ready", ready: "1/1" });
    await until(async () => expect(await bed.pods("chat")).toHaveLength(1));
    const [pod] = await bed.pods("chat");
    await untilForwarded("chat");
    const stream = bed.ask(node(), "chat", { max_tokens: LONG, stream: true });
    await untilBusy(pod);
    const started = performance.now();
    await bed.farm.objects.remove(NAMESPACE, `pod/${pod?.metadata.name}`);
    await annotate(`gone ${Math.round(performance.now() - started)} ms after its deletion`);
    expect(await stream).toContain("[DONE]");
    await bed.until("chat", { phase: "Ready", ready: "1/1" });
  });

  test("with waitForIdle a change waits for the stream of the old pod", async () => {
    const [pod] = await bed.pods("chat");
    await untilForwarded("chat");
    // The controller reads the gauges every five seconds.
    const stream = bed.ask(node(), "chat", { max_tokens: 4 * LONG, stream: true });
    await untilBusy(pod);
    await bed.patch("isvc/chat", { spec: { rolloutPolicy: { waitForIdle: true }, batchSize: 64 } });
    await bed.until("chat", { phase: "Progressing", reason: "PodsBusy" });
    expect((await bed.pods("chat")).map(uid)).toEqual([pod && uid(pod)]);
    expect(await stream).toContain("[DONE]");
    await bed.until("chat", { phase: "Ready", ready: "1/1", updatedReplicas: 1, observedGeneration: 5 });
  });

  test("an engine that hangs is restarted by its liveness probe, and leaves its endpoints before", async () => {
    const probeOverrides = {
      liveness: {
        periodSeconds: 1,
        timeoutSeconds: 1,
        failureThreshold: 6,
        terminationGracePeriodSeconds: 5,
      },
      readiness: { periodSeconds: 1, timeoutSeconds: 1, failureThreshold: 1 },
    };
    await bed.apply("hangs", { modelCache: { persistence: "Ephemeral" }, probeOverrides });
    await bed.until("hangs", { phase: "Ready", ready: "1/1" });
    const [pod] = await bed.pods("hangs");
    const on = bed.cluster.node(pod?.spec.nodeName ?? "");
    const [pid] = (await on.containers(NAMESPACE, pod?.metadata.name ?? "")).get("engine") ?? [];
    process.kill(pid ?? 0, "SIGSTOP");
    await bed.until("hangs", { ready: "0/1" });
    await bed.until("hangs", { phase: "Ready", ready: "1/1" });
    const [after] = await bed.pods("hangs");
    expect(after?.status?.containerStatuses?.[0]).toMatchObject({ restartCount: 1 });
  });

  test("a key is asked for by the engine, and a Job fills a claim that many nodes may mount", async () => {
    const secret = {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "key" },
      stringData: { key: "sesame" },
    };
    const claim = {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { name: "shared" },
      spec: { accessModes: ["ReadWriteMany"], resources: { requests: { storage: "1Gi" } } },
    };
    await bed.farm.objects.apply(secret, claim);
    await localVolume(bed.farm.objects, node(), { size: "1Gi" });
    const modelCache = { claimName: "shared" };
    await bed.apply("keyed", { modelCache, auth: { secretRef: { name: "key" }, key: "key" } });
    await bed.until("keyed", { phase: "Ready", ready: "1/1" });
    const jobs = await bed.farm.objects.list(JOBS);
    expect(jobs).toHaveLength(1);
    await untilForwarded("keyed", "401");
    const models = `${await bed.url("keyed")}/v1/models`;
    expect(await statusOf(models, "-H", "Authorization: Bearer sesame")).toBe("200");
  });

  test("a suspended service has no pods, and a deleted one leaves nothing but its Model's volume", async () => {
    await bed.patch("isvc/hangs", { spec: { suspend: true } });
    await bed.until("hangs", { phase: "Suspended" });
    await until(async () => expect(await bed.pods("hangs")).toEqual([]));
    await bed.farm.objects.remove(NAMESPACE, "isvc", "models");
    await until(async () => {
      const label = "app.kubernetes.io/managed-by=metalbridge";
      for (const kind of [PODS, DEPLOYMENTS, SERVICES, JOBS, ENDPOINT_SLICES])
        expect(await bed.farm.objects.list(kind, label)).toEqual([]);
    });
  });

  /** By the engine's own gauge, at its pod's address. */
  async function untilBusy(pod: Pod | undefined): Promise<void> {
    const url = `http://${pod?.status?.podIP}:8080/metrics`;
    await until(async () => {
      expect(await (await fetch(url)).text()).toMatch(/^llamacpp:requests_processing [1-9]/m);
    });
  }

  /** A service may be Ready before kube-proxy knows its pod, and until then its ClusterIP refuses connections. */
  async function untilForwarded(service: string, status = "200"): Promise<void> {
    const models = `${await bed.url(service)}/v1/models`;
    await until(async () => expect(await statusOf(models)).toBe(status));
  }

  async function statusOf(url: string, ...args: readonly string[]): Promise<string> {
    const options = ["-s", "-m", "5", "-o", "/dev/null", "-w", "%{http_code}"];
    return node().run("curl", ...options, ...args, url);
  }
});
