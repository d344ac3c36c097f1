import { expect, test } from "vitest";
import { createFitness } from "../../fitness/fitness.ts";
import { readReportedNode } from "./nodes.ts";

test("a report is parsed once for each version of its ConfigMap", () => {
  let parsed = 0;
  const mapWith = (cores: number) => ({
    metadata: { name: "metalbridge-node-node-1" },
    get data() {
      parsed += 1;
      return {
        "node.json": JSON.stringify({ cpu: { cores }, gpus: [], runtimes: [], models: [], leftOut: [] }),
      };
    },
  });
  let map = mapWith(4);
  const fitness = createFitness([]);
  const read = () => readReportedNode(fitness, { metadata: { name: "node-1" } }, { get: () => map }).cores;
  expect([read(), read()]).toEqual([4, 4]);
  expect(parsed).toBe(1);
  map = mapWith(8);
  expect([read(), read()]).toEqual([8, 8]);
  expect(parsed).toBe(2);
});
