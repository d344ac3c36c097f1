/** Without fitness scores the controller places services on hosts and in pods by capacity, and Kubernetes chooses the nodes. */
import { describe, expect, test } from "vitest";
import { getCondition } from "../src/api/conditions.ts";
import type { Deployment } from "../src/kube/workload-objects.ts";
import { whyNoSimulatedNodes } from "../test/bed/kwok.ts";
import { createNamespaceWithCache, inferenceService, startBench } from "../test/controller/bench.ts";

const why = whyNoSimulatedNodes();
const NS = "unscored";

describe.skipIf(why !== undefined)(`without fitness (${why ?? "simulated nodes"})`, () => {
  test("without fitness, services run on hosts and in pods, and a service with placement.mode Auto reports that nodes are not scored", async () => {
    await using bench = await startBench({ nodes: [{ name: "cpu-1" }], flags: { fitness: false } });
    await bench.agent("mac-1");
    await createNamespaceWithCache(bench, NS);
    await bench.model(NS, "tiny");
    await bench.model(NS, "in-memory", { accelerator: "cpu" });
    await bench.apply(inferenceService(NS, "on-host", { modelRef: "tiny" }));
    const placement = { mode: "Auto" };
    await bench.apply(inferenceService(NS, "in-pods", { modelRef: "in-memory", placement }));
    for (const [name, on] of [
      ["on-host", "Hosts"],
      ["in-pods", "Pods"],
    ] as const)
      await bench.serviceUntil(NS, name, ({ status }) =>
        expect(status).toMatchObject({ phase: "Ready", on }),
      );
    const { status } = await bench.service(NS, "in-pods");
    expect(getCondition(status?.conditions, "NodesScored")).toMatchObject({
      status: "False",
      reason: "FitnessOff",
    });
    const { spec }: Deployment = await bench.objects.get(NS, "deployment/in-pods");
    expect(spec.template.spec.affinity).toBeUndefined();
  });
});
