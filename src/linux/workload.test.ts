/** The objects of a service on Linux nodes, held to readable YAML, and what no pod can be made from. */
import { fileURLToPath } from "node:url";
import { testGoldens } from "../../test/golden/golden.ts";
import type { WorkloadInput } from "./contract.ts";
import { inputOf, type WorkloadWish } from "./fixtures/workload-input.ts";
import { buildWorkload } from "./workload.ts";

testGoldens(fileURLToPath(new URL("./golden", import.meta.url)), (wish: WorkloadWish) => {
  const input: WorkloadInput = inputOf(wish);
  return buildWorkload(input);
});
