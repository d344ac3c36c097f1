/** Loaded before each test file: measures the CPU time that the file takes, with its imports and hooks. */
import { afterAll } from "vitest";
import { cpuSeconds } from "./cpu.ts";

declare module "vitest" {
  interface TaskMeta {
    cpuSeconds?: number;
  }
}

const before = cpuSeconds();

// The first hook that is registered runs last. Vitest reads from the pattern which fixtures a hook wants.
// biome-ignore lint/correctness/noEmptyPattern: none
afterAll(({}, file) => {
  const after = cpuSeconds();
  if (before !== undefined && after !== undefined) file.meta.cpuSeconds = after - before;
});
