/** The engines this agent can drive, one line each. */
import type { z } from "zod";
import type { Runtime } from "../../src/api/fields/runtimes.ts";
import { ENGINES } from "../../src/engines/registry.ts";
import type { Clock } from "../../src/util/ports.ts";
import type { GateRoutes } from "../gate/gate-routes.ts";
import type { EngineDriver, EngineOptions, HostEngine } from "./driver/engine.ts";
import { withGate } from "./gated-driver.ts";
import { genericEngine } from "./generic/driver.ts";
import { llamacppEngine } from "./llamacpp/driver.ts";
import { ollamaEngine } from "./ollama/driver.ts";
import { omlxEngine } from "./omlx/driver.ts";

/** Keyed by the engine's key in the agent's configuration. */
const hostEngines = {
  llamaServer: llamacppEngine,
  ollama: ollamaEngine,
  omlx: omlxEngine,
  generic: genericEngine,
};

type Engines = typeof hostEngines;
type EngineKey = keyof Engines;
export type EngineConfigs = { readonly [Key in EngineKey]: z.output<Engines[Key]["config"]> };

export const HOST_ENGINES = Object.entries(hostEngines) as readonly (readonly [
  key: EngineKey,
  engine: HostEngine<EngineConfigs[EngineKey]>,
])[];

/** The keys of engines in the schema of the agent's configuration. */
export const engineConfigs = Object.fromEntries(HOST_ENGINES.map(([key, { config }]) => [key, config])) as {
  readonly [Key in EngineKey]: Engines[Key]["config"];
};

export interface RegistryOptions extends Omit<EngineOptions, "machine"> {
  /** The agent's configuration; each engine gets its own part. */
  readonly config: Partial<EngineConfigs> & EngineOptions["machine"];
  /** Serves the routes of engines behind the gate. */
  readonly gate: { readonly routes: GateRoutes; readonly clock: Clock };
}

/** In the order of preference of their runtimes. */
export function createEngineDrivers({
  config,
  gate,
  ...options
}: RegistryOptions): ReadonlyMap<Runtime, EngineDriver> {
  const drivers = new Map<Runtime, EngineDriver>();
  for (const { runtime } of ENGINES) {
    const [key, engine] = HOST_ENGINES.find(([, one]) => one.runtime === runtime) ?? [];
    if (key === undefined || engine === undefined) continue;
    const own = config[key] ?? engine.config.parse(undefined);
    drivers.set(runtime, withGate(engine.driver(own, { ...options, machine: config }), gate));
  }
  return drivers;
}

const PASSED_VARIABLES =
  /^(PATH|HOME|USER|LOGNAME|TMPDIR|LANG|LC_ALL|TZ|LD_LIBRARY_PATH|(GGML|CUDA|HIP|ROCR|VK)_[A-Z0-9_]+)$/;

/** The part of the agent's environment that an engine gets. */
export function engineEnvironment(all: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const passed = Object.entries(all).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && PASSED_VARIABLES.test(entry[0]),
  );
  return Object.fromEntries(passed);
}
