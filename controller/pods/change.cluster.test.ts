/** What keeps serving while the template of pods changes, with the real API server, controllers and scheduler. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LABEL_REVISION, MANAGER_CONTROLLER } from "../../src/api/group.ts";
import { parseRevisionData } from "../../src/capacity/revision-data.ts";
import { CONTROLLER_REVISIONS, DEPLOYMENTS } from "../../src/kube/kinds.ts";
import type { Deployment } from "../../src/kube/workload-objects.ts";
import { serveLogs } from "../../test/bed/kubelet-logs.ts";
import { whyNoSimulatedNodes } from "../../test/bed/kwok.ts";
import { scriptAnnotations } from "../../test/bed/kwok-stages.ts";
import { must } from "../../test/bed/must.ts";
import { runProgram, startProgram } from "../../test/cli/program.ts";
import {
  type Bench,
  createNamespaceWithCache,
  inferenceService,
  startBench,
} from "../../test/controller/bench.ts";
import { createObserver } from "./fixtures/observe.ts";
import { podRevisionOf, withRevision } from "./workload/revision.ts";

const why = whyNoSimulatedNodes();
const NS = "changes";
const GPU = "nvidia.com/gpu";

describe.skipIf(why !== undefined)(`changes of pods (${why ?? "simulated nodes"})`, () => {
  let bench: Bench;

  beforeAll(async () => {
    bench = await startBench({ nodes: [{ name: "cpu-1" }, { name: "gpu-1", capacity: { [GPU]: "3" } }] });
    await createNamespaceWithCache(bench, NS);
    await bench.model(NS, "tiny", { accelerator: "cpu" });
    await bench.model(NS, "cuda", { accelerator: "cuda", gpus: 1 });
  });
  afterAll(() => bench?.[Symbol.asyncDispose](), 60_000);

  const until = (name: string, expected: object) =>
    bench.serviceUntil(NS, name, ({ status }) => expect(status).toMatchObject(expected));
  const { get, see, podsOf, seePods, uidsOf, watchAvailable } = createObserver(NS, () => bench);
  const patch = (what: string, change: object) => bench.objects.patch(NS, what, change);

  test("two of three pods with GPUs serve throughout, where all GPUs are in use", async () => {
    await bench.apply(inferenceService(NS, "three", { modelRef: "cuda", replicas: 3 }));
    await until("three", { phase: "Ready", ready: "3/3" });
    const leastAvailable = await watchAvailable("three", 3);
    await patch("isvc/three", { spec: { contextSize: 2048 } });
    await until("three", { phase: "Ready", ready: "3/3", updatedReplicas: 3, observedGeneration: 2 });
    expect(await leastAvailable()).toBe(2);
  });

  test("the only pod keeps serving while the next one has no image, and the service reports why", async () => {
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

  test("an upgrade of the controller changes no pod: new images, probes and scripts come with the next change, or when asked for", async () => {
    const modelCache = { persistence: "Ephemeral" };
    await bench.apply(inferenceService(NS, "stays", { modelCache }));
    await until("stays", { phase: "Ready", ready: "1/1" });
    await bench.stopController();
    const older = await asAnOlderController("stays");
    await seePods("stays", (pods) => expect(pods.map(podRevisionOf)).toEqual([older]));
    const before = await uidsOf("stays");

    const image = "registry.example/metalbridge:2.0.0";
    await bench.restartController(undefined, { image, engineImages: "llamacpp=registry.example/llama:new" });
    // The second pod shows that this controller has been through the service.
    await patch("isvc/stays", { spec: { replicas: 2 } });
    await until("stays", { phase: "Ready", ready: "2/2", updatedReplicas: 2, observedGeneration: 2 });
    expect(await uidsOf("stays")).toEqual(expect.arrayContaining(before));
    expect((await podsOf("stays")).map(podRevisionOf)).toEqual([older, older]);

    await patch("isvc/stays", { spec: { contextSize: 2048 } });
    await until("stays", { phase: "Ready", ready: "2/2", updatedReplicas: 2, observedGeneration: 3 });
    const images = ({ spec }: Deployment) => {
      const { initContainers = [], containers } = spec.template.spec;
      return [...initContainers, ...containers].map((one) => one.image);
    };
    const imagesOf = async () => images(await get<Deployment>("deployment/stays"));
    expect(await imagesOf()).toEqual([image, "registry.example/llama:new"]);

    await bench.restartController(undefined, {
      image,
      engineImages: "llamacpp=registry.example/llama:newer",
    });
    await patch("isvc/stays", { spec: { replicas: 1 } });
    await until("stays", { phase: "Ready", ready: "1/1", observedGeneration: 4 });
    expect(await imagesOf()).toEqual([image, "registry.example/llama:new"]);
    const restart = ["rollout", "restart", "stays", "-n", NS];
    expect(await runProgram(restart, bench.cluster)).toMatchObject({ code: 0 });
    await see<Deployment>("deployment/stays", (found) =>
      expect(images(found)[1]).toBe("registry.example/llama:newer"),
    );
    await until("stays", { phase: "Ready", ready: "1/1", updatedReplicas: 1 });
  });

  test("metalbridge logs prints the logs of a service's pods", async () => {
    await using kubelet = await serveLogs(bench.cluster.kubectl, "cpu-1", (url) => `of ${url}\n`);
    await bench.apply(
      inferenceService(NS, "talks", { replicas: 2, nodeSelector: { "kubernetes.io/hostname": "cpu-1" } }),
    );
    await until("talks", { phase: "Ready", ready: "2/2" });
    const logs = (...args: string[]) => runProgram(["logs", ...args, "-n", NS], bench.cluster);
    const names = (await podsOf("talks")).map(({ metadata }) => metadata.name);
    const both = await logs("talks", "--tail", "5");
    expect(both).toMatchObject({ code: 0 });
    const lines = both.stdout.trimEnd().split("\n");
    expect(lines.map((line) => line.slice(0, line.indexOf("]") + 1)).sort()).toEqual(
      names.map((name) => `[${name}]`).sort(),
    );
    expect(lines[0]).toContain("/engine?tailLines=5");
    const [name = ""] = names;
    const one = await logs(name, "-p");
    expect(one).toMatchObject({ code: 0, stdout: expect.stringMatching(/^of \S+previous=true/) });
    expect((await logs("nothing")).stderr).toContain("ReplicaNotFound");
    expect(kubelet.asked.filter((url) => url.includes("previous=true"))).toHaveLength(1);
    await using following = startProgram(["logs", "talks", "-f", "-n", NS], bench.cluster);
    await following.until(/follow=true/);
  });

  /** The Deployment and the revision with other probes and scripts; returns the revision of the template. */
  async function asAnOlderController(name: string): Promise<string | undefined> {
    const labelSelector = `metalbridge.dev/service=${name}`;
    const [stored] = must(
      await bench.client.list(CONTROLLER_REVISIONS, { namespace: NS, labelSelector }),
    ).items;
    const data = stored && parseRevisionData(stored.data);
    const template = data?.pods?.templates.template;
    const [engine, ...others] = template?.spec.containers ?? [];
    if (stored === undefined || data?.pods === undefined || template === undefined || engine === undefined)
      throw new Error("no revision");
    const probes = {
      startupProbe: { tcpSocket: { port: "http" } },
      livenessProbe: { tcpSocket: { port: "http" } },
    };
    const lifecycle = { preStop: { sleep: { seconds: 1 } } };
    const containers = [{ ...engine, ...probes, lifecycle }, ...others];
    const older = withRevision({ ...template, spec: { ...template.spec, containers } });
    const hash = podRevisionOf(older) ?? "";
    const { annotations, labels, ownerReferences } = stored.metadata;
    must(
      await bench.client.create(CONTROLLER_REVISIONS, {
        metadata: {
          name: `${name}-${hash}`,
          namespace: NS,
          labels: { ...labels, [LABEL_REVISION]: hash },
          annotations,
          ownerReferences,
        },
        revision: stored.revision + 1,
        data: { ...data, pods: { ...data.pods, templates: { template: older } } },
      }),
    );
    const { metadata, spec } = await get<Deployment>(`deployment/${name}`);
    const object = {
      metadata: { name, namespace: NS, labels: metadata.labels, annotations: metadata.annotations },
      spec: { ...spec, template: older },
    };
    must(await bench.client.apply(DEPLOYMENTS, object, { manager: MANAGER_CONTROLLER, current: undefined }));
    return hash;
  }
});
