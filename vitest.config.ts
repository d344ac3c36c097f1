import { defineConfig } from "vitest/config";

/** unit: beside the source, no cluster. cluster: needs the real control plane. e2e: whole system, one at a time. */
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "unit",
          include: ["{src,agent,controller,launchd,cli,scripts}/**/*.test.ts"],
          exclude: ["**/*.cluster.test.ts"],
          testTimeout: 20_000,
        },
      },
      {
        test: {
          name: "cluster",
          include: ["{src,agent,controller,launchd,cli}/**/*.cluster.test.ts", "test/cluster/**/*.test.ts"],
          globalSetup: ["test/cluster/global-setup.ts"],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: "integration",
          include: ["test/integration/**/*.test.ts"],
          testTimeout: 180_000,
          hookTimeout: 180_000,
          maxWorkers: 1,
          fileParallelism: false,
        },
      },
    ],
  },
});
