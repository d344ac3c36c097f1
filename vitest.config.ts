import { defineConfig } from "vitest/config";
import { LongestFirst } from "./test/longest-first.ts";

const SYSTEM = ["**/*.{system,soak}.test.ts"];
const TORTURE = "test/torture/torture.soak.test.ts";

/** What all tests of this house share. */
const shared = {
  globalSetup: ["test/cluster/global-setup.ts"],
  setupFiles: ["test/measure-file.ts"],
  // Whole systems run at the same time: a limit ends what hangs, and says nothing about speed.
  testTimeout: 300_000,
  hookTimeout: 300_000,
  expect: { poll: { timeout: 60_000 } },
  // A worker that loads the same modules again for each file takes a fifth of all CPU time.
  isolate: false,
};

/**
 * tests: `npm test`, all that a change can break. Unit tests, cluster tests and tests of the whole system run side by side, so
 * that short tests use the time in which long ones wait.
 * system, torture: `npm run test:system`, what takes minutes by nature: whole nodes, kill loops, pictures of browsers, soaks.
 */
export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          ...shared,
          name: "tests",
          include: [
            "{src,fitness,agent,controller,gateway,server,web,launchd,local,cli,scripts,test}/**/*.test.ts",
          ],
          exclude: SYSTEM,
          // More than the cores of a small machine: most tests wait for processes and clocks half of their time.
          maxWorkers: 5,
        },
      },
      {
        test: {
          ...shared,
          name: "system",
          sequence: { groupOrder: 1 },
          include: SYSTEM,
          exclude: ["node_modules/**", TORTURE],
          maxWorkers: 3,
        },
      },
      {
        test: {
          ...shared,
          name: "torture",
          sequence: { groupOrder: 2 },
          include: [TORTURE],
          // Its invariants have limits in seconds: two farms use one to two cores, and nothing else runs beside them.
          maxWorkers: 1,
          maxConcurrency: 2,
        },
      },
    ],
  },
});
