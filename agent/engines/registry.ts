/** The engines this agent can drive: one line each. */
import type { Runtime } from "../../src/api/fields/runtimes.ts";
import type { Clock } from "../../src/util/ports.ts";
import type { AgentConfig } from "../config/schema.ts";
import type { GateRoutes } from "../gate/gate-routes.ts";
import { withGate } from "../gate/gated-driver.ts";
import type { Instances } from "../instances/instances.ts";
import type { EngineDriver } from "./engine.ts";
import { genericDriver } from "./generic/driver.ts";
import { llamaServerDriver } from "./llamacpp/driver.ts";
import { ollamaDriver } from "./ollama/driver.ts";
import { omlxDriver } from "./omlx/driver.ts";

export interface EngineOptions {
  /** The environment of engines: never the agent's own, or its LLAMA_ARG_* variables would change every engine. */
  readonly env: Readonly<Record<string, string>>;
  /** What the agent was configured with; each engine reads its own part. */
  readonly config: Pick<AgentConfig, "llamaServer"> &
    Partial<Pick<AgentConfig, "memory" | "platform" | "generic" | "ollama" | "omlx" | "sources" | "disk">>;
  readonly instances: Instances;
  /** Bytes that all engines of this host may claim together; undefined until the machine was read. */
  readonly memoryBudget: () => number | undefined;
}

export interface RegistryOptions extends EngineOptions {
  /** Where engines that serve through the gate get their routes. */
  readonly gate: { readonly routes: GateRoutes; readonly clock: Clock };
}

const DRIVERS: Partial<Record<Runtime, (options: EngineOptions) => EngineDriver>> = {
  llamacpp: llamaServerDriver,
  omlx: omlxDriver,
  ollama: ollamaDriver,
  generic: genericDriver,
};

export function createEngineDrivers(options: RegistryOptions): ReadonlyMap<Runtime, EngineDriver> {
  return new Map(
    Object.values(DRIVERS)
      .map((create) => create(options))
      .map((driver) => withGate(driver, options.gate))
      .map((driver) => [driver.runtime, driver]),
  );
}

const PASSED_ON =
  /^(PATH|HOME|USER|LOGNAME|TMPDIR|LANG|LC_ALL|TZ|LD_LIBRARY_PATH|(GGML|CUDA|HIP|ROCR|VK)_[A-Z0-9_]+)$/;

/** What of the agent's environment an engine gets. */
export function engineEnvironment(all: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(all)) {
    if (value !== undefined && PASSED_ON.test(name)) kept[name] = value;
  }
  return kept;
}
