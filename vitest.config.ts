import { defineConfig } from "vitest/config";
import { LongestFirst } from "./test/longest-first.ts";

/** More than cores: these tests wait for processes and clocks most of the time. */
const WAITING_WORKERS = 4;

/**
 * unit: beside the source, no cluster. cluster: needs the real control plane. integration: the whole system.
 * soak: minutes of torture and thousands of rounds, one file at a time; not part of `npm test`, a step of its own in `.ci/run`.
 */
export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          name: "unit",
          sequence: { groupOrder: 0 },
          include: [
            "{src,agent,controller,launchd,local,cli,scripts}/**/*.test.ts",
            "test/{chart,fixtures,docs,torture,metrics}/**/*.test.ts",
          ],
          exclude: ["**/*.cluster.test.ts", "**/*.soak.test.ts"],
          testTimeout: 20_000,
          // One less than cores by default, which is one on the smallest machine.
          maxWorkers: "100%",
        },
      },
      {
        test: {
          name: "cluster",
          sequence: { groupOrder: 1 },
          include: [
            "{src,agent,controller,launchd,local,cli,test}/**/*.cluster.test.ts",
            "test/cluster/**/*.test.ts",
          ],
          globalSetup: ["test/cluster/global-setup.ts"],
          testTimeout: 180_000,
          hookTimeout: 180_000,
          maxWorkers: WAITING_WORKERS,
        },
      },
      {
        test: {
          name: "integration",
          sequence: { groupOrder: 1 },
          include: ["test/integration/**/*.test.ts"],
          testTimeout: 180_000,
          hookTimeout: 180_000,
          maxWorkers: WAITING_WORKERS,
        },
      },
      {
        test: {
          name: "soak",
          sequence: { groupOrder: 2 },
          include: ["**/*.soak.test.ts"],
          testTimeout: 240_000,
          hookTimeout: 180_000,
          maxWorkers: 1,
        },
      },
    ],
  },
});
