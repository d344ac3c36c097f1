/** Services of BackendRuntimes in pods, with the real API server, controllers and scheduler; nodes and kubelets are kwok's. */
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { packageRoot } from "../../../local/package-root.ts";
import type { BackendRuntime } from "../../../src/api/backend-runtime.ts";
import { API_VERSION } from "../../../src/api/group.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { DEPLOYMENTS, PODS } from "../../../src/kube/kinds.ts";
import { whyNoSimulatedNodes } from "../../../test/bed/kwok.ts";
import { must } from "../../../test/bed/must.ts";
import { until } from "../../../test/bed/until.ts";
import {
  type Bench,
  createNamespaceWithCache,
  inferenceService,
  startBench,
} from "../../../test/controller/bench.ts";

const why = whyNoSimulatedNodes();
const NS = "backends";

describe.skipIf(why !== undefined)(`BackendRuntimes (${why ?? "simulated nodes"})`, () => {
  let bench: Bench;

  beforeAll(async () => {
    bench = await startBench({ nodes: [{ name: "cpu-1" }] });
    await createNamespaceWithCache(bench, NS);
    await bench.model(NS, "tiny", { accelerator: "cpu" });
  });
  afterAll(() => bench?.[Symbol.asyncDispose](), 60_000);

  const SPEC = {
    image: "registry.example/engine",
    version: "1",
    command: ["/bin/engine"],
    args: ["--model", "{{ .ModelPath }}", "--port", "{{port}}"],
    env: [
      { name: "B", value: "runtime" },
      { name: "A", value: "runtime" },
    ],
    port: 9100,
    sharedMemory: "2Gi",
    lifecycle: { preStop: { exec: { command: ["/bin/engine", "drain"] } } },
    gauges: { running: ["engine_running"], queued: ["engine_queued"] },
    recommendedConfigs: [
      { name: "default", args: ["--default"] },
      { name: "large", args: ["--large"], env: [{ name: "A", value: "large" }], sharedMemory: "4Gi" },
    ],
  };
  const runtime = (name: string, spec: object = {}) =>
    bench.apply({
      apiVersion: API_VERSION,
      kind: "BackendRuntime",
      metadata: { name },
      spec: { ...SPEC, ...spec },
    });
  const serve = (name: string, backendRuntime: object, spec: object = {}) =>
    bench.apply(inferenceService(NS, name, { backendRuntime, ...spec }));
  const status = (name: string, expected: object) =>
    bench.serviceUntil(NS, name, (one) => expect(one.status).toMatchObject(expected));
  const runtimeUntil = (name: string, expected: object) =>
    bench.objects.until("", `backendruntime/${name}`, (found: BackendRuntime): BackendRuntime => {
      expect(found.status).toMatchObject(expected);
      return found;
    });
  const engineOf = async (name: string) => {
    const { spec } = must(await bench.client.get(DEPLOYMENTS, { namespace: NS, name }));
    const [engine] = spec.template.spec.containers;
    return { ...spec.template.spec, engine };
  };
  const imageOf = async (name: string) => (await engineOf(name)).engine?.image?.split(":").at(-1);
  const podsOf = async (name: string) => {
    const labelSelector = `metalbridge.dev/service=${name}`;
    const { items } = must(await bench.client.list(PODS, { namespace: NS, labelSelector }));
    return items.map(({ metadata }) => metadata.uid).sort();
  };
  const current = ({ status: is }: InferenceService) =>
    is?.conditions?.find(({ type }) => type === "BackendRuntimeCurrent");
  test("a service waits for its BackendRuntime, and runs with the merged settings as soon as that exists", async () => {
    await serve("merged", { name: "late", config: "large", version: "7" }, { args: ["--own"] });
    await status("merged", { phase: "Pending", reason: "BackendRuntimeNotFound" });
    await runtime("late");
    const service = await status("merged", { phase: "Ready", runtime: "generic" });
    expect(current(service)).toMatchObject({ status: "True" });
    const { engine, volumes } = await engineOf("merged");
    expect(engine).toMatchObject({
      image: "registry.example/engine:7",
      command: ["/bin/engine"],
      ports: [{ containerPort: 9100 }],
      lifecycle: SPEC.lifecycle,
    });
    expect(engine?.args?.slice(2)).toEqual(["--port", "9100", "--large", "--own"]);
    expect(engine?.args?.[1]).toMatch(/^\/models\//);
    const own = engine?.env?.filter(({ name }) => name === "A" || name === "B");
    expect(own).toEqual([
      { name: "B", value: "runtime" },
      { name: "A", value: "large" },
    ]);
    expect(volumes).toContainEqual({
      name: "shared-memory",
      emptyDir: { medium: "Memory", sizeLimit: "4Gi" },
    });
    expect(engine?.volumeMounts).toContainEqual({ name: "shared-memory", mountPath: "/dev/shm" });
  });

  test("an unknown configuration is reported, and running pods stay", async () => {
    await runtime("configs");
    await serve("configured", { name: "configs" });
    await status("configured", { phase: "Ready" });
    const before = await podsOf("configured");
    await serve("configured", { name: "configs", config: "none" });
    const { status: found } = await status("configured", {
      phase: "Degraded",
      reason: "BackendConfigNotFound",
    });
    expect(found?.message).toContain("it has default, large");
    expect(await podsOf("configured")).toEqual(before);
  });

  test("a service is updated when its restart is requested or its spec changes, and keeps its pods until then", async () => {
    const names = ["asked-a", "asked-b", "asked-c"];
    await runtime("asked");
    await runtime("other");
    for (const name of names) await serve(name, { name: "asked" });
    await serve("untouched", { name: "other" });
    for (const name of [...names, "untouched"]) await status(name, { phase: "Ready" });
    await runtimeUntil("asked", { services: 3, updatedServices: 3, reason: "AllUpdated" });
    const untouched = await bench.service(NS, "untouched");
    const before = await podsOf("asked-c");

    await runtime("asked", { version: "2" });
    const { status: outdated } = await runtimeUntil("asked", {
      observedGeneration: 2,
      updatedServices: 0,
      reason: "ServicesOutdated",
    });
    expect(outdated?.message).toContain("outdated: backends/asked-a, backends/asked-b, backends/asked-c");
    await bench.restartController();
    const annotations = { "metalbridge.dev/restarted-at": "2026-01-01T00:00:00Z" };
    await bench.objects.patch(NS, "isvc/asked-a", { metadata: { annotations } });
    await bench.objects.patch(NS, "isvc/asked-b", { spec: { contextSize: 2048 } });
    await bench.objects.patch(NS, "isvc/asked-c", { spec: { replicas: 2 } });
    await runtimeUntil("asked", { updatedServices: 2 });
    for (const name of ["asked-a", "asked-b"]) expect(await imageOf(name)).toBe("2");
    const { status: kept } = await status("asked-c", { phase: "Ready", ready: "2/2" });
    expect(current({ status: kept } as InferenceService)).toMatchObject({ reason: "UpdatePending" });
    expect(await imageOf("asked-c")).toBe("1");
    expect(await podsOf("asked-c")).toEqual(expect.arrayContaining(before));
    expect((await bench.service(NS, "untouched")).metadata.resourceVersion).toBe(
      untouched.metadata.resourceVersion,
    );

    // A restart is answered once: the next change waits for another one.
    await status("asked-a", { phase: "Ready" });
    await runtime("asked", { version: "3" });
    await runtimeUntil("asked", { observedGeneration: 3, updatedServices: 0 });
    expect(await imageOf("asked-a")).toBe("2");
  });

  test("a BackendRuntime that is deleted in use leaves its services running; created again with the same content, nothing is replaced", async () => {
    await runtime("deleted");
    await serve("kept", { name: "deleted" });
    await status("kept", { phase: "Ready" });
    const before = await podsOf("kept");
    await bench.objects.remove("", "backendruntime/deleted");
    const isLost = (service: InferenceService) =>
      expect(current(service)).toMatchObject({ status: "False", reason: "BackendRuntimeNotFound" });
    await bench.serviceUntil(NS, "kept", isLost);
    await bench.objects.patch(NS, "isvc/kept", { spec: { replicas: 2 } });
    await status("kept", { phase: "Ready", ready: "2/2" });
    await bench.restartController();
    await runtime("deleted");
    await bench.serviceUntil(NS, "kept", (one) => expect(current(one)).toMatchObject({ status: "True" }));
    await runtimeUntil("deleted", { services: 1, updatedServices: 1, reason: "AllUpdated" });
    expect(await podsOf("kept")).toEqual(expect.arrayContaining(before));
  });

  test("a pass that changes nothing makes no request, for a service and for its BackendRuntime", async () => {
    await runtime("quiet");
    await serve("quiet", { name: "quiet" });
    await status("quiet", { phase: "Ready" });
    await runtimeUntil("quiet", { services: 1, updatedServices: 1, reason: "AllUpdated" });
    let turn = 0;
    const quietPass = (queue: string, change: (note: object) => Promise<unknown>) =>
      until(async () => {
        const before = await bench.work(queue);
        await change({ metadata: { annotations: { "example.com/note": String(turn++) } } });
        const after = await until(async () => {
          const now = await bench.work(queue);
          expect(now.passes).toBeGreaterThan(before.passes);
          return now;
        });
        // Passes over other services of this file may still settle.
        expect(after.requests).toBe(before.requests);
      });
    await quietPass("services", (note) => bench.objects.patch(NS, "isvc/quiet", note));
    await quietPass("backends", (note) => bench.objects.patch("", "backendruntime/quiet", note));
  });

  test("in a cluster without the definition, only services of BackendRuntimes wait, with their pods, and continue once it is installed", async () => {
    await runtime("lost");
    await serve("stays", { name: "lost" });
    await status("stays", { phase: "Ready" });
    const before = await podsOf("stays");
    await bench.objects.remove("", "crd/backendruntimes.metalbridge.dev");
    await bench.restartController();
    await bench.apply(inferenceService(NS, "plain", {}));
    await status("plain", { phase: "Ready" });
    const waits = await bench.serviceUntil(NS, "stays", (one) =>
      expect(current(one)).toMatchObject({ status: "Unknown", reason: "BackendRuntimesUnavailable" }),
    );
    expect(current(waits)?.message).toContain("metalbridge crds | kubectl apply --server-side -f -");
    expect(waits.status).toMatchObject({ phase: "Degraded", ready: "1/1" });
    expect(await podsOf("stays")).toEqual(before);

    await bench.objects.install(
      path.join(packageRoot(), "charts/metalbridge/files/crds/backendruntimes.yaml"),
    );
    await until(() => runtime("lost"));
    await bench.serviceUntil(NS, "stays", (one) => expect(current(one)).toMatchObject({ status: "True" }));
    await status("stays", { phase: "Ready" });
    expect(await podsOf("stays")).toEqual(before);
  });
});
