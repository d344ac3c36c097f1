import type { EngineName } from "./catalog.ts";

/** The seeds of every test run, the longest first: together they draw every kind of fault, and some that outlast a Lease. */
export const FIXED_SEEDS = [
  { engine: "llamacpp", seed: 578, minutes: 5, nodes: 0 },
  { engine: "ollama", seed: 779, minutes: 3, nodes: 0 },
  { engine: "llamacpp", seed: 12, minutes: 2.5, nodes: 0 },
  { engine: "llamacpp", seed: 2352, minutes: 2, nodes: 2 },
] as const satisfies readonly { engine: EngineName; seed: number; minutes: number; nodes: number }[];
