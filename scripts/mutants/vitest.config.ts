/** Vitest as Stryker starts it: the unit tests alone, a worker at a time. */
import path from "node:path";
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    root: path.resolve(import.meta.dirname, "../.."),
    include: ["{src,fitness,agent,controller,launchd}/**/*.test.ts"],
    exclude: ["**/*.{cluster,engine,soak,system}.test.ts"],
    isolate: false,
    testTimeout: 120_000,
    maxWorkers: 1,
  },
});
