/** The engines of the demo. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import { HOST_ENGINE_INSTALLS } from "../../src/api/fields/runtimes.ts";
import type { PartsConfig } from "../control-plane/config.ts";
import { findLlamaServer, findOllama } from "../control-plane/engine-programs.ts";

/** Runtimes that can serve the generated GGUF file of the demo. */
export const DEMO_ENGINES = ["llamacpp", "ollama"] as const;
export type DemoEngine = (typeof DEMO_ENGINES)[number];

const PROGRAMS = {
  llamacpp: { name: "llama-server", flag: "--llama-server", find: findLlamaServer },
  ollama: { name: "ollama", flag: "--ollama", find: findOllama },
} as const satisfies Record<DemoEngine, object>;

/** Flags that pass the program of the engine to the agent. Throws `RuntimeNotInstalled`. */
export function engineFlags(engine: DemoEngine, config: PartsConfig): readonly string[] {
  const { name, flag, find } = PROGRAMS[engine];
  const program = find(config);
  if (program !== undefined) return [flag, program];
  throw new MetalbridgeError(
    "RuntimeNotInstalled",
    `${name} was not found on PATH or in ${config.cacheDir}`,
    { summary: `install ${name}`, command: HOST_ENGINE_INSTALLS[engine] },
  );
}
