/** Finds oMLX on this machine: its program with the flags that it accepts, or a server that runs already. */
import { delimiter } from "node:path";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import type { DetectedRuntime } from "../driver/engine.ts";
import {
  cacheByFile,
  locateProgram,
  type ProgramOptions,
  runProgram,
  runVersionCommand,
} from "../driver/program.ts";
import { callOmlx, describeReply, identifyOmlx, readVersion, type Server } from "./api.ts";

/** Homebrew's folders, searched after PATH. */
const FOLDERS = [
  "/opt/homebrew/opt/omlx/bin",
  "/usr/local/opt/omlx/bin",
  "/opt/homebrew/bin",
  "/usr/local/bin",
];
/** The program inside the desktop app. */
const APP = { name: "omlx-cli", folder: "/Applications/oMLX.app/Contents/MacOS" };
/** The agent starts each server with these flags; other versions had other ones. */
const REQUIRED_FLAGS = [
  "--base-path",
  "--model-dir",
  "--host",
  "--port",
  "--memory-guard",
  "--no-hf-cache",
  "--max-concurrent-requests",
];
const FIRST_VERSION = "0.7";
const TIMEOUT_MS = 2_000;

export interface OmlxProgram extends DetectedRuntime {
  /** The flags of `omlx serve`. */
  readonly flags: ReadonlySet<string>;
}

export function createOmlxFinder({ paths, env }: ProgramOptions): () => Promise<OmlxProgram | undefined> {
  const searched = { PATH: [env.PATH ?? "", ...FOLDERS].join(delimiter) };
  return cacheByFile(
    async () =>
      (await locateProgram("omlx", { paths, env: searched })) ??
      (await locateProgram(APP.name, { paths: [], env: { PATH: APP.folder } })),
    (path) => readProgram(path, env),
  );
}

/** Throws `SettingNotSupported` for flags that the installed version does not have. */
export function rejectUnknownFlags({ version, flags: known }: OmlxProgram, flags: readonly string[]): void {
  const unknown = flags
    .map((flag) => flag.split("=", 1)[0] ?? "")
    .filter((flag) => flag.startsWith("--") && !known.has(flag));
  if (unknown.length === 0) return;
  throw new MetalbridgeError("SettingNotSupported", `omlx ${version} has no ${unknown.join(", ")}`);
}

/** Detects the server that the agent's configuration names. */
export async function detectOmlx(server: Server): Promise<DetectedRuntime> {
  const url = `http://${server.host}:${server.port}`;
  const state = await identifyOmlx(server);
  if (state === undefined) {
    const message = `no oMLX answers at ${url}, which the agent's configuration names`;
    throw new MetalbridgeError("RuntimeBroken", message, {
      summary:
        "start it, or remove omlx.address from the agent's configuration, so that the agent starts its own server",
    });
  }
  if (state === "loading")
    throw new MetalbridgeError("RuntimeBroken", `the oMLX at ${url} is still loading its pinned models`, {
      summary: "wait: the agent retries every few seconds",
    });
  const status = await callOmlx(server, { path: "/api/status", timeoutMs: TIMEOUT_MS });
  if ("failed" in status || status.status !== 200) {
    const message = `the oMLX at ${url} refuses the agent: ${describeReply(status)}`;
    const summary = "put its main API key into the file that omlx.keyFile names";
    throw new MetalbridgeError("RuntimeBroken", message, { summary });
  }
  return { name: "omlx", version: (await readVersion(server)) ?? "unknown", path: url };
}

async function readProgram(path: string, env: ProgramOptions["env"]): Promise<OmlxProgram> {
  const answer = await runVersionCommand(path, { env });
  if ("failed" in answer) throw new MetalbridgeError("RuntimeBroken", `${path} ${answer.failed}`);
  const version = /\b\d+\.\d+\.\d+\S*/.exec(answer.text)?.[0];
  if (version === undefined)
    throw new MetalbridgeError("RuntimeBroken", `${path} --version names no version: is it oMLX?`);
  const help = await runProgram(path, ["serve", "--help"], env);
  if ("failed" in help) throw new MetalbridgeError("RuntimeBroken", `${path} serve ${help.failed}`);
  const flags = new Set(help.text.match(/--[a-z][a-z0-9-]*/g));
  const missing = REQUIRED_FLAGS.filter((flag) => !flags.has(flag));
  if (missing.length > 0)
    throw new MetalbridgeError(
      "RuntimeTooOld",
      `${path} is version ${version}, whose serve command lacks ${missing.join(", ")}; Metalbridge supports oMLX ${FIRST_VERSION}`,
      { summary: "install a version with these flags on the host", command: "brew upgrade omlx" },
    );
  return { name: "omlx", version, path, flags };
}
