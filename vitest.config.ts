import { defineConfig } from "vitest/config";

/**
 * unit: beside the source, no cluster. cluster: needs the real control plane. integration: the whole system, one at a time.
 * The groups run one after the other, so that measured times are not those of a machine busy with something else.
 */
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "unit",
          sequence: { groupOrder: 0 },
          include: [
            "{src,agent,controller,launchd,cli,scripts}/**/*.test.ts",
            "test/{fixtures,docs,torture,metrics}/**/*.test.ts",
          ],
          exclude: ["**/*.cluster.test.ts"],
          testTimeout: 20_000,
        },
      },
      {
        test: {
          name: "cluster",
          sequence: { groupOrder: 1 },
          include: [
            "{src,agent,controller,launchd,cli,test}/**/*.cluster.test.ts",
            "test/cluster/**/*.test.ts",
          ],
          globalSetup: ["test/cluster/global-setup.ts"],
          testTimeout: 180_000,
          hookTimeout: 180_000,
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: "integration",
          sequence: { groupOrder: 2 },
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
