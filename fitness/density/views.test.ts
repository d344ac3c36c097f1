import { expect, test } from "vitest";
import { rankModels } from "../scoring/fitness.ts";
import { cost } from "./cost.ts";
import { createDensity } from "./density.ts";
import { createFitIndex } from "./fits.ts";
import { aHost, aNode, catalogRecords } from "./fixtures/fleet.ts";
import { machineFromHost, machineFromNode } from "./place.ts";
import { catalogRow, groupSites, nodeDetail, nodeRow } from "./views.ts";

const records = catalogRecords();
const now = { wallMs: Date.UTC(2026, 5, 1), monotonicMs: 1_000_000 };
const recordOf = (name: string) => records.find((one) => one.name === name) ?? expect.fail(name);
const densityOf = (...hosts: readonly ReturnType<typeof aHost>[]) => {
  const density = createDensity(createFitIndex(records));
  for (const host of hosts) density.setPlace("Host", host.metadata.name, machineFromHost(host));
  return density;
};

test("the catalog lists every model that fits at least one node, with those nodes", () => {
  const density = densityOf(aHost("big", { memoryGib: 192 }), aHost("small", { memoryGib: 8 }));
  const rows = records.flatMap(
    (record) => catalogRow(groupSites(density, now), record, { minLevel: "marginal", maxNodes: 9 }) ?? [],
  );
  expect(rows.length).toBeGreaterThan(150);
  const short = catalogRow(groupSites(density, now), recordOf("Qwen/Qwen2.5-7B-Instruct"), {
    minLevel: "too_tight",
    maxNodes: 1,
  });
  expect(short).toMatchObject({ bestNode: "big", nodeCount: 2, nodes: [{ nodeName: "big" }] });
  const large = catalogRow(groupSites(density, now), recordOf("meta-llama/Llama-3.3-70B-Instruct"), {
    minLevel: "too_tight",
    maxNodes: 9,
  });
  expect(large).toMatchObject({ nodeCount: 1, nodes: [{ nodeName: "big" }, { fitLevel: "too_tight" }] });
  const big = rows.find(({ modelName }) => modelName === "meta-llama/Llama-3.3-70B-Instruct");
  expect(big).toMatchObject({ bestNode: "big", nodes: [{ nodeName: "big" }] });
  const { ModelFits } = nodeDetail(density, density.site("small") ?? expect.fail(), now, "marginal") as {
    ModelFits: readonly { readonly name: string }[];
  };
  const fitting = rows.filter(({ nodes }) => nodes.some(({ nodeName }) => nodeName === "small"));
  expect(ModelFits.map(({ name }) => name).sort()).toEqual(fitting.map(({ modelName }) => modelName).sort());
  expect(nodeRow(density, density.site("small") ?? expect.fail(), now).modelFitCount).toBe(ModelFits.length);
  const { machine } = (density.site("small") ?? expect.fail()).place;
  const ranked = rankModels(records, machine.at === "known" ? machine.machine : expect.fail(), {
    contextSize: 8192,
    cacheType: "f16",
    families: ["gguf", "mlx"],
  });
  const named = ranked.filter(({ level }) => level !== "too_tight").map(({ model }) => model);
  expect(named.sort(), "as `metalbridge fit --host` lists them").toEqual(
    ModelFits.map(({ name }) => name).sort(),
  );
});

test("a pod on a node whose GPUs have an unknown memory counts with its requests, not as nothing", () => {
  const density = createDensity(createFitIndex(records));
  const node = aNode("odd", { allocatable: { "nvidia.com/gpu": "2" } });
  density.setPlace("Node", "odd", machineFromNode(node));
  const held = { namespace: "team-a", service: "chat", phase: "Ready", bytes: 8 * 1024 ** 3, gpus: 1 };
  density.setHeld("pod", { kind: "Node", name: "odd" }, held);
  expect(cost(density).models).toMatchObject([{ gpu: 1, memoryRequiredGb: 8, utilizationPct: 0 }]);
});
