/** What keeps serving while the template of pods changes, with the real API server, controllers and scheduler. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { whyNoSimulatedNodes } from "../../../test/bed/kwok.ts";
import { scriptAnnotations } from "../../../test/bed/kwok-stages.ts";
import { type Bench, inferenceService, startBench } from "../../../test/controller/bench.ts";
import { looksAt } from "./fixtures/look.ts";

const why = whyNoSimulatedNodes();
const NS = "changes";
const GPU = "nvidia.com/gpu";

describe.skipIf(why !== undefined)(`changes of pods (${why ?? "simulated nodes"})`, () => {
  let bench: Bench;

  beforeAll(async () => {
    bench = await startBench({ nodes: [{ name: "cpu-1" }, { name: "gpu-1", capacity: { [GPU]: "3" } }] });
    await bench.cluster.kubectl(["create", "namespace", NS]);
    await bench.apply({
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { name: "metalbridge-model-cache", namespace: NS },
      spec: { accessModes: ["ReadWriteMany"], resources: { requests: { storage: "1Gi" } } },
    });
    await bench.model(NS, "tiny", { accelerator: "cpu" });
    await bench.model(NS, "cuda", { accelerator: "cuda", gpus: 1 });
  });
  afterAll(() => bench?.[Symbol.asyncDispose](), 60_000);

  const until = (name: string, expected: object) =>
    bench.serviceUntil(NS, name, ({ status }) => expect(status).toMatchObject(expected));
  const { watchAvailable } = looksAt(NS, () => bench.cluster.kubectl);
  const patch = (what: string, change: object) =>
    bench.cluster.kubectl(["patch", what, "-n", NS, "--type=merge", "-p", JSON.stringify(change)]);

  test("two of three pods with GPUs serve throughout, where all GPUs are in use", async () => {
    await bench.apply(inferenceService(NS, "three", { modelRef: "cuda", replicas: 3 }));
    await until("three", { phase: "Ready", ready: "3/3" });
    const leastAvailable = await watchAvailable("three", 3);
    await patch("isvc/three", { spec: { contextSize: 2048 } });
    await until("three", { phase: "Ready", ready: "3/3", updatedReplicas: 3, observedGeneration: 2 });
    expect(await leastAvailable()).toBe(2);
  });

  test("the only pod serves on while the next one has no image, and the service says why", async () => {
    await bench.apply(inferenceService(NS, "one"));
    await until("one", { phase: "Ready", ready: "1/1" });
    const leastAvailable = await watchAvailable("one", 1);
    const podAnnotations = scriptAnnotations({ outcome: "image-pull" });
    await patch("isvc/one", { spec: { image: "registry.example/typo:1", podAnnotations } });
    await until("one", { phase: "Degraded", reason: "ImageUnavailable", ready: "1/1" });
    await patch("isvc/one", { spec: { image: null, podAnnotations: null, contextSize: 2048 } });
    await until("one", { phase: "Ready", ready: "1/1", updatedReplicas: 1, observedGeneration: 3 });
    expect(await leastAvailable()).toBe(1);
  });
});
