import { defineConfig } from "vitest/config";
import { LongestFirst } from "./test/longest-first.ts";

/**
 * More than the cores of a small machine: most tests wait for processes and clocks half of their time. One number, since
 * vitest runs projects side by side only where theirs is the same.
 */
const WORKERS = 5;

/**
 * unit: beside the source, no cluster. cluster: needs the real control plane. integration: the whole system. These three
 * run side by side, so that short tests use the time in which long ones wait.
 * soak: minutes of torture and thousands of rounds, one file at a time; not part of `npm test`, a step of its own in `.ci/run`.
 */
export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          name: "unit",
          include: [
            "{src,fitness,agent,controller,server,launchd,local,cli,scripts}/**/*.test.ts",
            "test/{chart,fixtures,docs,torture,metrics,security}/**/*.test.ts",
          ],
          exclude: ["**/*.cluster.test.ts", "**/*.soak.test.ts"],
          // Whole systems run beside them.
          testTimeout: 180_000,
          hookTimeout: 180_000,
          // A process for each of hundreds of short files takes more CPU time than their tests.
          isolate: false,
          maxWorkers: WORKERS,
        },
      },
      {
        test: {
          name: "cluster",
          include: [
            "{src,fitness,agent,controller,server,launchd,local,cli,test}/**/*.cluster.test.ts",
            "test/cluster/**/*.test.ts",
          ],
          globalSetup: ["test/cluster/global-setup.ts"],
          testTimeout: 300_000,
          hookTimeout: 300_000,
          maxWorkers: WORKERS,
        },
      },
      {
        test: {
          name: "integration",
          include: ["test/integration/**/*.test.ts"],
          testTimeout: 300_000,
          hookTimeout: 300_000,
          maxWorkers: WORKERS,
        },
      },
      {
        test: {
          name: "soak",
          sequence: { groupOrder: 1 },
          include: ["**/*.soak.test.ts"],
          testTimeout: 300_000,
          hookTimeout: 300_000,
          maxWorkers: 1,
        },
      },
    ],
  },
});
