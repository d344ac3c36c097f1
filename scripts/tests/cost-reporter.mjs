/** A vitest reporter: what each test file has cost, as JSON in the file that METALBRIDGE_TEST_COSTS names. */
import { writeFileSync } from "node:fs";

// biome-ignore lint/style/noDefaultExport: vitest loads a reporter by its default export
export default class CostReporter {
  #files = [];

  onTestModuleEnd(module) {
    const { collectDuration, setupDuration, duration } = module.diagnostic();
    const wallSeconds = (collectDuration + setupDuration + duration) / 1_000;
    this.#files.push({ name: module.relativeModuleId, wallSeconds, cpuSeconds: module.meta().cpuSeconds });
  }

  onTestRunEnd() {
    if (process.env.METALBRIDGE_TEST_COSTS !== undefined)
      writeFileSync(process.env.METALBRIDGE_TEST_COSTS, JSON.stringify(this.#files));
  }
}
