/** Finds the engines on this machine in the same way as the agent. */
import { realpath, stat } from "node:fs/promises";
import type { AgentConfig } from "../../agent/config/schema.ts";
import { checkProgram } from "../../agent/engines/generic/programs.ts";
import { HOST_ENGINES } from "../../agent/engines/registry.ts";
import type { FoundRuntimes } from "../../agent/registration/host-status.ts";
import { accountControlling } from "../../launchd/account-files.ts";
import { changesOf, listEngines } from "../../launchd/engines/store.ts";
import { describeError, MetalbridgeError } from "../../src/api/errors.ts";
import type { FoundEngine, Readings } from "../../src/doctor/readings.ts";
import { backendEntry } from "../../src/engines/generic/backend-entry.ts";
import { type EnginePlaces, llamaServerPaths } from "../engine/programs.ts";

const FIRST_ANSWER_MS = 3_000;

/** Never rejects: an unusable engine is a finding. Programs run with `env`; `agent` has the paths that the agent searches. */
export async function findEngines(
  config: AgentConfig,
  env: Readonly<Record<string, string>>,
  agent: EnginePlaces = {},
): Promise<readonly FoundEngine[]> {
  const configs = { ...config, llamaServer: llamaServerPaths(config, agent) };
  const search = { env, firstAnswerTimeoutsMs: [FIRST_ANSWER_MS] };
  const found = await Promise.all(
    HOST_ENGINES.map(([key, { runtime, find }]) =>
      find === undefined ? [] : findEngine(runtime, () => find(configs[key], search)),
    ),
  );
  const programs = await Promise.all(Object.entries(config.backends).map(backendProgram));
  return [...found.flat(), ...programs].map((engine) => ({
    ...engine,
    changeableBy: changeableBy(engine.path),
  }));
}

/** Undefined if only root may change the program, or if its path cannot be read. */
function changeableBy(program: string): number | undefined {
  try {
    return program.startsWith("/") ? accountControlling(program)?.uid : undefined;
  } catch {
    return undefined;
  }
}

/** Engines of `metalbridge engine install`, with the files that changed since the installation. */
export async function readPinnedEngines(prefix: string | undefined): Promise<Readings["pinnedEngines"]> {
  const owner = prefix === undefined ? 0 : (await stat(prefix).catch(() => ({ uid: 0 }))).uid;
  const engines = prefix === undefined ? [] : await listEngines(prefix);
  const current = engines.filter(({ isCurrent }) => isCurrent);
  return Promise.all(
    current.map(async (engine) => ({ path: engine.folder, changes: await changesOf(engine, owner) })),
  );
}

/** Converts the engines to the form in which the agent reports them. */
export function foundRuntimesOf(engines: readonly FoundEngine[]): FoundRuntimes {
  return {
    found: engines
      .filter(({ problem }) => problem === undefined)
      .map(({ runtime, path, version }) => ({ name: runtime, path, ...(version && { version }) })),
    problems: engines.flatMap(({ runtime, problem }) =>
      problem === undefined ? [] : [{ runtime, ...problem }],
    ),
  };
}

/** Programs by real path, which is what a firewall checks. Engines that are reached by address have no program. */
export async function programsOf(engines: readonly FoundEngine[]) {
  const files = engines.filter(({ path }) => path.startsWith("/"));
  return Promise.all(
    files.map(async ({ runtime, path }) => ({
      engine: runtime,
      path: await realpath(path).catch(() => path),
    })),
  );
}

/** The program of a BackendRuntime that the configuration allows. */
async function backendProgram([name, { path }]: readonly [
  string,
  { readonly path: string },
]): Promise<FoundEngine> {
  const runtime = backendEntry(name);
  const [found] = await findEngine(runtime, async () => {
    await checkProgram(path, [path]);
    return { path };
  });
  return { runtime, ...found, path };
}

async function findEngine(
  runtime: string,
  find: () => Promise<{ readonly path: string; readonly version?: string } | undefined>,
): Promise<readonly FoundEngine[]> {
  try {
    const found = await find();
    return found === undefined ? [] : [{ runtime, path: found.path, version: found.version }];
  } catch (error) {
    const problem =
      error instanceof MetalbridgeError
        ? { code: error.code, message: describeError(error) }
        : { code: "RuntimeBroken" as const, message: String(error) };
    return [{ runtime, path: "", problem }];
  }
}
