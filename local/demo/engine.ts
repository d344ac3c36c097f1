/** The engine that the demo serves its model with. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { PartsConfig } from "../control-plane/config.ts";
import { findLlamaServer, findOllama } from "../control-plane/engine-programs.ts";

/** By runtime: those that run the demo's generated GGUF file. */
export const DEMO_ENGINES = ["llamacpp", "ollama"] as const;
export type DemoEngine = (typeof DEMO_ENGINES)[number];

const PROGRAMS = {
  llamacpp: { name: "llama-server", flag: "--llama-server", find: findLlamaServer, install: "llama.cpp" },
  ollama: { name: "ollama", flag: "--ollama", find: findOllama, install: "ollama" },
} as const satisfies Record<DemoEngine, object>;

/** Flags that name its program to the agent. Throws `RuntimeNotInstalled`. */
export function engineFlags(engine: DemoEngine, config: PartsConfig): readonly string[] {
  const { name, flag, find, install } = PROGRAMS[engine];
  const program = find(config);
  if (program !== undefined) return [flag, program];
  throw new MetalbridgeError(
    "RuntimeNotInstalled",
    `${name} was not found on PATH or in ${config.cacheDir}`,
    {
      summary: `install ${name}`,
      command: `brew install ${install}`,
    },
  );
}
