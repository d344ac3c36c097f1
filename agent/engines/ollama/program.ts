/** Finding Ollama on this machine: its program, or a server that runs already. */
import { delimiter } from "node:path";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import type { DetectedRuntime } from "../engine.ts";
import { locateProgram, type ProgramOptions, readVersion as readProgramVersion } from "../program.ts";
import { type Address, readVersion } from "./api.ts";

/** Where the desktop app keeps it. */
const IN_APP = "/Applications/Ollama.app/Contents/Resources";
/** Nothing listens there: asked for its version, it must not wait for a server that may hang. Without a HOME it panics. */
const NO_SERVER = { OLLAMA_HOST: "127.0.0.1:1", HOME: "/" };

/** Remembers what a file answered until its path, size or time of change differ. */
export function createOllamaFinder({
  paths,
  env,
}: ProgramOptions): () => Promise<DetectedRuntime | undefined> {
  let known: { readonly key: string; readonly found: DetectedRuntime } | undefined;
  return async () => {
    const file = await locateProgram("ollama", {
      paths,
      env: { PATH: `${env.PATH ?? ""}${delimiter}${IN_APP}` },
    });
    if (file === undefined) return undefined;
    if (known?.key === file.key) return known.found;
    const answer = await readProgramVersion(file.path, { env: { ...env, ...NO_SERVER } });
    if ("failed" in answer) throw new MetalbridgeError("RuntimeBroken", `${file.path} ${answer.failed}`);
    const version = /(?:client version is|ollama version is) (\S+)/.exec(answer.text)?.[1];
    if (version === undefined)
      throw new MetalbridgeError("RuntimeBroken", `${file.path} --version names no version: is it Ollama?`);
    known = { key: file.key, found: { name: "ollama", version, path: file.path } };
    return known.found;
  };
}

export async function askFound(address: Address): Promise<DetectedRuntime> {
  const where = `http://${address.host}:${address.port}`;
  const version = await readVersion(address);
  if (version !== undefined) return { name: "ollama", version, path: where };
  const message = `no Ollama answers at ${where}, which the agent's configuration names`;
  throw new MetalbridgeError("RuntimeBroken", message, {
    summary:
      "start it, or remove ollama.address from the agent's configuration: the agent then starts one of its own",
  });
}
