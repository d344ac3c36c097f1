/** The engines on this machine, found as the agent finds them. */
import { realpath } from "node:fs/promises";
import type { AgentConfig } from "../../agent/config/schema.ts";
import { createProgramFinder } from "../../agent/engines/llamacpp/program.ts";
import { askFound, createOllamaFinder } from "../../agent/engines/ollama/program.ts";
import { createOmlxFinder } from "../../agent/engines/omlx/program.ts";
import type { FoundRuntimes } from "../../agent/registration/host-status.ts";
import { accountOnTheWay } from "../../launchd/account-files.ts";
import { readPartsConfig } from "../../local/control-plane/config.ts";
import { findLlamaServer } from "../../local/control-plane/engine-programs.ts";
import { describeError, MetalbridgeError } from "../../src/api/errors.ts";
import type { FoundEngine } from "../../src/doctor/readings.ts";

const FIRST_ANSWER_MS = 3_000;

type AgentEnvironment = Readonly<Record<string, string | undefined>>;

/** Never rejects: an engine that cannot be used is a finding. Programs get `env`; the agent finds its own by `agentEnv`. */
export async function findEngines(
  config: AgentConfig,
  env: Readonly<Record<string, string>>,
  agentEnv?: AgentEnvironment,
): Promise<readonly FoundEngine[]> {
  const llamacpp = createProgramFinder({
    paths: llamaServerPaths(config, agentEnv),
    env,
    firstAnswerTimeoutsMs: [FIRST_ANSWER_MS],
  });
  const { address, programs } = config.ollama;
  const [host, port] = splitAddress(address ?? "");
  const ollama =
    address === undefined ? createOllamaFinder({ paths: programs, env }) : () => askFound({ host, port });
  const found = await Promise.all([
    one("llamacpp", async () => {
      const program = await llamacpp();
      return program && { path: program.path, version: program.capabilities.version };
    }),
    one("ollama", ollama),
    one("omlx", createOmlxFinder({ paths: config.omlx.programs, env })),
  ]);
  return found.flat().map((engine) => ({ ...engine, changeableBy: changeableBy(engine.path) }));
}

/** Undefined where only root may, and where the way to it cannot be read. */
function changeableBy(program: string): number | undefined {
  try {
    return program.startsWith("/") ? accountOnTheWay(program)?.uid : undefined;
  } catch {
    return undefined;
  }
}

/** As the agent reports them. */
export function runtimesOf(engines: readonly FoundEngine[]): FoundRuntimes {
  return {
    found: engines
      .filter(({ trouble }) => trouble === undefined)
      .map(({ runtime, path, version }) => ({ name: runtime, path, ...(version && { version }) })),
    troubles: engines.flatMap(({ runtime, trouble }) =>
      trouble === undefined ? [] : [{ runtime, ...trouble }],
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

/** As `metalbridge agent` has it: PATH, and then what `npm run setup` cached. */
export function llamaServerPaths(
  { llamaServer }: AgentConfig,
  agentEnv?: AgentEnvironment,
): readonly string[] {
  const found = llamaServer.length > 0 ? undefined : findLlamaServer(readPartsConfig(agentEnv));
  return found === undefined ? llamaServer : [found];
}

async function one(
  runtime: string,
  find: () => Promise<{ readonly path: string; readonly version: string } | undefined>,
): Promise<readonly FoundEngine[]> {
  try {
    const found = await find();
    return found === undefined ? [] : [{ runtime, path: found.path, version: found.version }];
  } catch (error) {
    const trouble =
      error instanceof MetalbridgeError
        ? { code: error.code, message: describeError(error) }
        : { code: "RuntimeBroken" as const, message: String(error) };
    return [{ runtime, path: "", trouble }];
  }
}

function splitAddress(address: string): readonly [host: string, port: number] {
  const at = address.lastIndexOf(":");
  return [address.slice(0, at), Number(address.slice(at + 1))];
}
