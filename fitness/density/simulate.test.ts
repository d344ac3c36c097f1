import { expect, test } from "vitest";
import { createDensity } from "./density.ts";
import { createFitIndex } from "./fits.ts";
import { A100S, aHost, aNode, catalogRecords } from "./fixtures/fleet.ts";
import { machineFromHost, machineFromNode } from "./place.ts";
import { simulate } from "./simulate.ts";

const records = catalogRecords();
const now = { wallMs: Date.UTC(2026, 5, 1), monotonicMs: 1_000_000 };
const record = records.find(({ name }) => name === "Qwen/Qwen2.5-7B-Instruct");
const densityOf = (host: ReturnType<typeof aHost>) => {
  const density = createDensity(createFitIndex(records));
  density.setPlace("Host", host.metadata.name, machineFromHost(host));
  return density;
};

test.each<
  [on: "Hosts" | "Pods" | "Auto" | undefined, accelerator: "cuda" | "rocm" | "cpu" | undefined, string]
>([
  [undefined, undefined, "cpu gpu mac"],
  ["Auto", undefined, "cpu gpu mac"],
  ["Hosts", undefined, "mac"],
  ["Pods", undefined, "cpu gpu"],
  ["Pods", "cuda", "gpu"],
  ["Pods", "cpu", "cpu"],
  ["Pods", "rocm", ""],
  ["Auto", "cuda", "gpu mac"],
])("a simulation for %s with %s has the candidates %s", (on, accelerator, names) => {
  const density = densityOf(aHost("mac"));
  for (const node of [aNode("gpu", A100S), aNode("cpu")])
    density.setPlace("Node", node.metadata.name, machineFromNode(node));
  const { rankedNodes } = simulate(density, { record, on, accelerator }, now);
  expect(
    rankedNodes
      .map(({ nodeName }) => nodeName)
      .sort()
      .join(" "),
  ).toBe(names);
});

test.each<[what: string, where: object, names: string]>([
  ["names", { hosts: ["studio", "gone"] }, "a100 l40s studio"],
  ["a host label", { hostSelectors: [{ matchLabels: { room: "lab" } }] }, "a100 l40s mini"],
  ["a node label", { nodeSelectors: [{ matchLabels: { gpu: "a100" } }] }, "a100 mini studio"],
  [
    "one of two",
    { nodeSelectors: [{ matchLabels: { gpu: "a100" } }, { matchLabels: { gpu: "l40s" } }] },
    "a100 l40s mini studio",
  ],
  ["no flavor for hosts", { hostSelectors: [], nodeSelectors: [{ matchLabels: { gpu: "x" } }] }, ""],
])("only machines that the labels of a service allow are candidates: %s", (_, where, names) => {
  const density = densityOf(aHost("studio"));
  const mini = aHost("mini");
  density.setPlace(
    "Host",
    "mini",
    machineFromHost({ ...mini, metadata: { ...mini.metadata, labels: { room: "lab" } } }),
  );
  for (const name of ["a100", "l40s"]) {
    const node = aNode(name, A100S);
    const labels = { ...node.metadata.labels, gpu: name };
    density.setPlace("Node", name, machineFromNode({ ...node, metadata: { ...node.metadata, labels } }));
  }
  const { rankedNodes } = simulate(density, { record, ...where }, now);
  expect(
    rankedNodes
      .map(({ nodeName }) => nodeName)
      .sort()
      .join(" "),
  ).toBe(names);
});

test("memory is simulated for the whole context that a service asks for, also above the model's window", () => {
  const density = densityOf(aHost("mac", { memoryGib: 32, budgetGib: 24 }));
  const at = (contextSize: number) => simulate(density, { record, contextSize }, now).rankedNodes[0];
  const trained = record?.context_length ?? 0;
  const window = at(trained);
  const twice = at(2 * trained);
  expect(twice?.requiredMemoryGb).toBeGreaterThan(window?.requiredMemoryGb ?? 0);
  expect(at(99_999_999)).toMatchObject({ fitLevel: "too_tight", remainingMemoryGb: 0 });
});

test.each<[contextSize: number | undefined, slots: number | undefined, isBeyond: boolean]>([
  [undefined, undefined, false],
  [32_768, undefined, false],
  [32_769, undefined, true],
  [65_536, 2, false],
  [65_538, 2, true],
])("a context of %s in %s slots is beyond training: %s; no fit is better than marginal then", (...row) => {
  const [contextSize, slots, isBeyond] = row;
  const density = densityOf(aHost("mac", { memoryGib: 512 }));
  const [best] = simulate(density, { record, contextSize, slots }, now).rankedNodes;
  expect(best?.fitLevel).toBe(isBeyond ? "marginal" : "perfect");
});
