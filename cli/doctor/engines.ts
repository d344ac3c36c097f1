/** The engines on this machine, found as the agent finds them. */
import { realpath, stat } from "node:fs/promises";
import type { AgentConfig } from "../../agent/config/schema.ts";
import { HOST_ENGINES } from "../../agent/engines/registry.ts";
import type { FoundRuntimes } from "../../agent/registration/host-status.ts";
import { accountControlling } from "../../launchd/account-files.ts";
import { changesOf, listEngines } from "../../launchd/engines/store.ts";
import { describeError, MetalbridgeError } from "../../src/api/errors.ts";
import type { FoundEngine, Readings } from "../../src/doctor/readings.ts";
import { type EnginePlaces, llamaServerPaths } from "../engine/programs.ts";

const FIRST_ANSWER_MS = 3_000;

/** Never rejects: an engine that cannot be used is a finding. Programs get `env`; the agent finds its own as `agent` says. */
export async function findEngines(
  config: AgentConfig,
  env: Readonly<Record<string, string>>,
  agent: EnginePlaces = {},
): Promise<readonly FoundEngine[]> {
  const configs = { ...config, llamaServer: llamaServerPaths(config, agent) };
  const search = { env, firstAnswerTimeoutsMs: [FIRST_ANSWER_MS] };
  const found = await Promise.all(
    HOST_ENGINES.map(([key, { runtime, find }]) =>
      find === undefined ? [] : one(runtime, () => find(configs[key], search)),
    ),
  );
  return found.flat().map((engine) => ({ ...engine, changeableBy: changeableBy(engine.path) }));
}

/** Undefined where only root may, and where the way to it cannot be read. */
function changeableBy(program: string): number | undefined {
  try {
    return program.startsWith("/") ? accountControlling(program)?.uid : undefined;
  } catch {
    return undefined;
  }
}

/** Those of `metalbridge engine install`, and how their files differ from what was installed. */
export async function readPinnedEngines(prefix: string | undefined): Promise<Readings["pinnedEngines"]> {
  const owner = prefix === undefined ? 0 : (await stat(prefix).catch(() => ({ uid: 0 }))).uid;
  const engines = prefix === undefined ? [] : await listEngines(prefix);
  const current = engines.filter(({ isCurrent }) => isCurrent);
  return Promise.all(
    current.map(async (engine) => ({ path: engine.folder, changes: await changesOf(engine, owner) })),
  );
}

/** As the agent reports them. */
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

/** With their real paths, which are what a firewall knows; those behind an address have none. */
export async function programsOf(engines: readonly FoundEngine[]) {
  const files = engines.filter(({ path }) => path.startsWith("/"));
  return Promise.all(
    files.map(async ({ runtime, path }) => ({
      engine: runtime,
      path: await realpath(path).catch(() => path),
    })),
  );
}

async function one(
  runtime: string,
  find: () => Promise<{ readonly path: string; readonly version: string } | undefined>,
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
