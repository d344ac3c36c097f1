/** Checks llama-server with a tiny generated model: responses, addresses and memory. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { sendEngineRequest } from "../../agent/engines/driver/http.ts";
import { runProgram } from "../../agent/engines/driver/program.ts";
import { createProgramFinder, type LlamaServerProgram } from "../../agent/engines/llamacpp/program.ts";
import { HOST_ENGINES } from "../../agent/engines/registry.ts";
import { createHostReader } from "../../agent/host/reader.ts";
import { chooseEnginePort, isPortAnswering } from "../../agent/instances/process/engine-port.ts";
import { writeTinyModel } from "../../local/demo/tiny-model.ts";
import { buildArgv } from "../../src/engines/llamacpp/argv.ts";
import { estimateClaim } from "../../src/engines/llamacpp/claim/claim.ts";
import { COMPUTE_TABLES } from "../../src/engines/llamacpp/claim/compute/table.ts";
import { parseDevices } from "../../src/engines/llamacpp/devices.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import { measureBuffers } from "../calibrate/measure.ts";
import { calibrationCases } from "../calibrate/sizes.ts";
import { writeSparseModel } from "../calibrate/sparse-model.ts";
import { llamaServerPaths, ownPrefix } from "../engine/programs.ts";
import { readGguf } from "../gguf/read.ts";
import { startAbandoned } from "./abandoned.ts";
import { ownAddress } from "./processes.ts";
import {
  type Bench,
  failedStep,
  notApplicableStep,
  passedStep,
  type SelftestOutcome,
  type SelftestStep,
  unknownStep,
} from "./step.ts";
import { commandOf } from "./tools.ts";

const ENGINE_MS = 60_000;
const REQUEST_MS = 10_000;
const READY_CHECK_MS = 100;
const SETTINGS = { mode: "chat", contextSize: 2048, parallelSlots: 1, promptCacheMiB: 0 } as const;
/** Maximum relative difference between the budget that Metal reports and the recorded one. */
const BUDGET_PART = 0.02;

/** The steps share one engine, which an early step starts. */
export function engineSteps(): readonly SelftestStep[] {
  let serving: Serving | undefined;
  const withEngine =
    (check: (engine: Serving, bench: Bench) => Promise<SelftestOutcome>) => async (bench: Bench) =>
      serving === undefined ? notApplicableStep("no llama-server is serving") : check(serving, bench);
  const step = (name: string, proves: string, run: SelftestStep["run"]): SelftestStep => ({
    ...{ name, proves, run, limitMs: ENGINE_MS },
    platforms: ["darwin", "linux"],
  });
  return [
    step("llama-server", "the installed llama-server is found, and its flags are understood", checkVersion),
    step(
      "engine",
      "llama-server serves a tiny model under the shim after its parent was killed",
      async (bench) => {
        serving = await startEngine(bench);
        return serving === undefined
          ? notApplicableStep("llama-server is not installed")
          : checkAnswer(serving);
      },
    ),
    step(
      "engine-addresses",
      "llama-server listens on loopback and on the host's address",
      withEngine(checkAddresses),
    ),
    step(
      "footprint",
      "`footprint` shows what an engine takes, and the claim covers it",
      withEngine(checkFootprint),
    ),
    step("metal", "llama-server offloads all layers to Metal", withEngine(checkMetal)),
    step(
      "gpu-budget",
      "Metal's recommended working set is the one recorded for this size of memory",
      checkBudget,
    ),
    step("buffers", "the buffers that llama-server prints are within the claim", checkBuffers),
    ...HOST_ENGINES.flatMap(([key, { runtime, find, selftestName: name }]) =>
      name === undefined || find === undefined
        ? []
        : [
            step(runtime, `the installed ${name} is found, and its flags are understood`, async (bench) => {
              const found = await find(bench.config[key], bench);
              return found === undefined
                ? notApplicableStep(`${name} is not installed`)
                : passedStep(`${found.version}, ${found.flags?.size ?? 0} flags`);
            }),
          ],
    ),
  ];
}

interface Serving {
  readonly pid: number;
  readonly port: number;
  readonly address: string | undefined;
  readonly claimBytes: number;
  readonly log: () => Promise<string>;
}

function find({ config, env }: Bench): Promise<LlamaServerProgram | undefined> {
  return createProgramFinder({ paths: llamaServerPaths(config, { prefix: ownPrefix() }), env })();
}

async function checkVersion(bench: Bench): Promise<SelftestOutcome> {
  const program = await find(bench);
  if (program === undefined) return notApplicableStep("llama-server is not installed");
  return passedStep(`${program.capabilities.version}, ${program.capabilities.flags.size} flags`);
}

async function startEngine(bench: Bench): Promise<Serving | undefined> {
  const program = await find(bench);
  if (program === undefined) return undefined;
  const folder = join(bench.folder, "model");
  await mkdir(folder);
  const { path } = await writeTinyModel(join(folder, "tiny.gguf"));
  const { summary } = await readGguf(path);
  const address = await ownAddress(bench);
  const port = await chooseEnginePort({
    ...{ range: bench.config.portRange, taken: new Set<number>() },
    ...(address === undefined ? {} : { address }),
  });
  const hosts = ["127.0.0.1", ...(address === undefined ? [] : [address])];
  const { argv, problems } = buildArgv(
    { settings: SETTINGS, modelPath: path, hosts, port, aliases: ["selftest"] },
    program.capabilities,
  );
  if (problems.length > 0) throw new Error(problems.map(({ why }) => why).join("; "));
  const engine = await startAbandoned(bench, "engine", {
    argv: [program.path, ...argv],
    env: { ...bench.env, GGML_NO_BACKTRACE: "1" },
  });
  const isReady = async (): Promise<boolean> => {
    const answer = await sendEngineRequest({
      host: "127.0.0.1",
      port,
      path: "/health",
      timeoutMs: REQUEST_MS,
    });
    return "status" in answer && answer.status === 200;
  };
  while (!(await isReady())) {
    const { at } = engine.process.state();
    if (at === "running" && !bench.signal.aborted) {
      await setTimeout(READY_CHECK_MS);
      continue;
    }
    throw new Error(`llama-server is ${at} and not ready: ${(await engine.process.logTail(400)).trim()}`);
  }
  const { claimBytes } = estimateClaim(summary, SETTINGS, tableOf());
  const log = () => engine.process.logTail(1 << 20);
  return { ...{ pid: engine.pid, port, address, claimBytes, log } };
}

/** Depends on this machine, where the engine runs, even if the tools are a recording. */
const tableOf = () => (process.platform === "darwin" ? COMPUTE_TABLES.metal : COMPUTE_TABLES.cpu);

async function checkAnswer({ port, pid }: Serving): Promise<SelftestOutcome> {
  const answer = await sendEngineRequest({
    ...{ host: "127.0.0.1", port, path: "/v1/chat/completions", timeoutMs: REQUEST_MS },
    body: { max_tokens: 8, messages: [{ role: "user", content: "Hello" }] },
  });
  if ("failed" in answer) return failedStep(answer.failed);
  return answer.status === 200 && answer.body.includes('"content"')
    ? passedStep(`pid ${pid} answers on port ${port}`)
    : failedStep(`it answers ${answer.status}: ${answer.body.slice(0, 200)}`);
}

async function checkAddresses({ port, address }: Serving): Promise<SelftestOutcome> {
  if (address === undefined) return notApplicableStep("this machine has no address but loopback");
  const [loopback, own] = await Promise.all([
    isPortAnswering(port, "127.0.0.1"),
    isPortAnswering(port, address),
  ]);
  return loopback && own
    ? passedStep(`port ${port} on both`)
    : failedStep(`only ${loopback ? "loopback" : "the address"} answers`);
}

async function checkFootprint(
  { pid, claimBytes }: Serving,
  { runPrivately, config, isReplayed }: Bench,
): Promise<SelftestOutcome> {
  const bytes = await createHostReader(config.platform, commandOf(runPrivately)).footprintBytes(pid);
  if (bytes === undefined) return failedStep("the footprint of the engine cannot be read");
  const both = `${formatBytes(bytes)}, claim ${formatBytes(claimBytes)}`;
  return isReplayed || bytes <= claimBytes ? passedStep(both) : failedStep(`more than its claim: ${both}`);
}

async function checkMetal({ log }: Serving): Promise<SelftestOutcome> {
  if (process.platform !== "darwin") return notApplicableStep("not a Mac");
  const line = /offloaded (\d+)\/(\d+) layers to GPU/.exec(await log());
  if (line === null) return unknownStep("the engine's log has no line about offloaded layers");
  return line[1] === line[2] ? passedStep(line[0]) : failedStep(line[0]);
}

async function checkBudget(bench: Bench): Promise<SelftestOutcome> {
  if (process.platform !== "darwin") return notApplicableStep("not a Mac");
  const program = await find(bench);
  if (program === undefined) return notApplicableStep("llama-server is not installed");
  const answer = await runProgram(program.path, ["--list-devices"], bench.env);
  const device =
    "failed" in answer ? undefined : parseDevices(answer.text)?.find(({ name }) => /^MTL/.test(name));
  const recorded = await createHostReader("darwin", commandOf(bench.run)).gpuBudgetBytes();
  if (device === undefined || recorded === undefined) return failedStep("Metal's budget cannot be read");
  const both = `Metal ${formatBytes(device.totalBytes)}, recorded ${formatBytes(recorded)}`;
  const isNear = Math.abs(device.totalBytes - recorded) <= BUDGET_PART * recorded;
  return isNear ? passedStep(both) : failedStep(`they differ: ${both}`);
}

async function checkBuffers(bench: Bench): Promise<SelftestOutcome> {
  const program = await find(bench);
  const [first] = calibrationCases(true);
  if (program === undefined || first === undefined) return notApplicableStep("llama-server is not installed");
  const path = join(bench.folder, "sparse.gguf");
  await writeSparseModel(path, first.model);
  const { summary } = await readGguf(path);
  const { promptCacheBytes, overheadBytes, claimBytes } = estimateClaim(summary, first.settings, tableOf());
  const printed = await measureBuffers(program.path, path, first.settings, { signal: bench.signal });
  const claimed = claimBytes - promptCacheBytes - overheadBytes;
  const both = `${printed.backends.join(" and ")}: printed ${formatBytes(printed.totalBytes)}, claimed ${formatBytes(claimed)}`;
  if (process.platform === "darwin" && !printed.backends.some((name) => /^(MTL|Metal)/.test(name)))
    return failedStep(`no buffer is Metal's: ${both}`);
  // The tolerance covers the rounding of printed sizes.
  return printed.totalBytes <= claimed + PRINTED_BYTES
    ? passedStep(both)
    : failedStep(`more than its claim: ${both}`);
}

const PRINTED_BYTES = 1 << 20;
