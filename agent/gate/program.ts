/** What a gate is started with. */
import { fileURLToPath } from "node:url";

/** Memory beside the models is dear: 24 MB of its own under 64 streams, in place of 36. */
export const NODE_FLAGS = [
  "--single-threaded-gc",
  "--optimize-for-size",
  "--v8-pool-size=1",
  "--max-semi-space-size=2",
];
/** For glibc: one arena, and what a large body took is returned to the system. */
export const MALLOC = { MALLOC_ARENA_MAX: "1", MALLOC_MMAP_THRESHOLD_: "131072" };

/** The gate's own program: from sources beside this file, in a release beside the bundle. */
export function entryPath(): string {
  const here = import.meta.url;
  const path = here.endsWith(".ts") ? "./main.ts" : here.includes("/chunks/") ? "../gate.cjs" : "./gate.cjs";
  return fileURLToPath(new URL(path, here));
}
