/** Finds Ollama on this machine: its program, or a server that runs already. */
import { delimiter } from "node:path";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { ollamaVersion } from "../../../src/engines/ollama/version.ts";
import type { DetectedRuntime } from "../driver/engine.ts";
import type { Address } from "../driver/http.ts";
import { cacheByFile, locateProgram, type ProgramOptions, runVersionCommand } from "../driver/program.ts";
import { readVersion } from "./api.ts";

/** The folder of the program inside the desktop app. */
const IN_APP = "/Applications/Ollama.app/Contents/Resources";
/** `--version` must not wait for a server that may hang, so it gets a port without a listener. Without a HOME the program panics. */
const NO_SERVER = { OLLAMA_HOST: "127.0.0.1:1", HOME: "/" };

export function createOllamaFinder({
  paths,
  env,
}: ProgramOptions): () => Promise<DetectedRuntime | undefined> {
  const searched = { PATH: `${env.PATH ?? ""}${delimiter}${IN_APP}` };
  return cacheByFile(
    () => locateProgram("ollama", { paths, env: searched }),
    async (path) => {
      const answer = await runVersionCommand(path, { env: { ...env, ...NO_SERVER } });
      if ("failed" in answer) throw new MetalbridgeError("RuntimeBroken", `${path} ${answer.failed}`);
      const version = /(?:client version is|ollama version is) (\S+)/.exec(answer.text)?.[1];
      if (version === undefined)
        throw new MetalbridgeError("RuntimeBroken", `${path} --version names no version: is it Ollama?`);
      return { name: "ollama", version: ollamaVersion(version), path };
    },
  );
}

export async function detectOllama(address: Address): Promise<DetectedRuntime> {
  const url = `http://${address.host}:${address.port}`;
  const version = await readVersion(address);
  if (version !== undefined) return { name: "ollama", version: ollamaVersion(version), path: url };
  const message = `no Ollama answers at ${url}, which the agent's configuration names`;
  throw new MetalbridgeError("RuntimeBroken", message, {
    summary:
      "start it, or remove ollama.address from the agent's configuration, so that the agent starts its own server",
  });
}
