import { defineConfig } from "vitest/config";
import { LongestFirst } from "./test/longest-first.ts";

/**
 * tests: unit tests, cluster tests and tests of the whole system, side by side, so that short tests use the time in which
 * long ones wait. One project without isolation: vitest reuses a worker only for the next file of the same project, and a
 * worker that loads the same modules again for each file takes a fifth of all CPU time.
 * soak: minutes of torture and thousands of rounds, one file at a time; not part of `npm test`, a separate step of `.ci/run`.
 */
export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          name: "tests",
          include: [
            "{src,fitness,agent,controller,gateway,server,web,launchd,local,cli,scripts}/**/*.test.ts",
            "test/{chart,fixtures,docs,torture,metrics,security,cluster,integration,gateway,console}/**/*.test.ts",
            "test/**/*.cluster.test.ts",
          ],
          exclude: ["**/*.soak.test.ts"],
          globalSetup: ["test/cluster/global-setup.ts"],
          // Whole systems run at the same time.
          testTimeout: 300_000,
          hookTimeout: 300_000,
          isolate: false,
          // More than the cores of a small machine: most tests wait for processes and clocks half of their time.
          maxWorkers: 5,
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
          // Two farms under torture keep two cores busy; four starve each other, and their clocks run out.
          maxConcurrency: 2,
        },
      },
    ],
  },
});
