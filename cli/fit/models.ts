/** `metalbridge fit` without a model: lists the catalog models that fit a machine, the best first. */

import { execFile } from "node:child_process";
import { cpus, hostname, totalmem } from "node:os";
import { promisify } from "node:util";
import { type Command, InvalidArgumentError, Option } from "commander";
import { createMatcher } from "../../fitness/catalog/match.ts";
import {
  familiesOn,
  type Quantization,
  quantizationNames,
  quantizationOf,
} from "../../fitness/catalog/quantizations.ts";
import type { CatalogRecord } from "../../fitness/catalog/record.ts";
import { type LlmfitRow, llmfitRows } from "../../fitness/llmfit/fit.ts";
import type { LlmfitSystem } from "../../fitness/llmfit/system.ts";
import { calibrate, speedRatios } from "../../fitness/scoring/calibration.ts";
import { isAtLeast, type ModelFit, rankModels } from "../../fitness/scoring/fitness.ts";
import {
  type Machine,
  type MachineInput,
  type MachineRead,
  machineOf,
  readMachine,
} from "../../fitness/scoring/machine.ts";
import { DEFAULT_CONTEXT } from "../../fitness/scoring/replica-fit.ts";
import { FIT_LEVELS, type FitLevel, USE_CASES, type UseCase } from "../../fitness/scoring/score.ts";
import { DRAFT_TOKENS } from "../../fitness/scoring/speculation.ts";
import type { Figure } from "../../fitness/scoring/speed.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { parseQuantity } from "../../src/api/fields/quantity.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import { type BenchmarkTable, NO_BENCHMARKS } from "../../src/capacity/benchmark/table.ts";
import { hostBudget } from "../../src/capacity/placement/budget.ts";
import { hostAccelerator } from "../../src/engines/registry.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import { catalogOption, readCatalogFiles, recordNamed } from "../catalog/read.ts";
import { readBenchmarkTable } from "../cluster/benchmarks.ts";
import { withCluster } from "../cluster/cluster.ts";
import { findObject } from "../cluster/find.ts";
import { type ClusterFlags, countParser, parseHostName } from "../cluster/flags.ts";
import { exitCodes } from "../program/exit-codes.ts";
import { printResult } from "../program/output.ts";
import { alignColumns, formatTable } from "../program/table.ts";

export interface ModelsFlags extends MachineFlags {
  readonly useCase?: UseCase;
  readonly limit?: number;
  readonly minFit?: FitLevel;
  readonly quantization?: Quantization;
  readonly draft?: string;
  readonly draftTokens?: number;
  readonly compat?: "llmfit";
  readonly catalog?: readonly string[];
  readonly context?: number;
  readonly cacheType?: string;
  readonly output: "text" | "wide" | "json";
}

const LIMIT = 20;

/** The options for a fit without a model. */
export function addModelsFlags(command: Command): Command {
  return command
    .option(
      "--host <host>",
      "without a model: check this Host of the cluster (default: this machine)",
      parseHostName,
    )
    .option("--memory <size>", "without a model: check a machine with this much memory, such as 32Gi")
    .option("--chip <name>", "chip of the machine for --memory, such as M4 Pro (default: a CPU)")
    .option("--gpu-cores <count>", "number of GPU cores, for chips with several variants", countParser(1))
    .addOption(
      new Option(
        "--use-case <name>",
        "use case of the model (default: the own use case of each model)",
      ).choices([...USE_CASES]),
    )
    .option("--limit <count>", `maximum number of models (default: ${LIMIT})`, countParser(1))
    .addOption(new Option("--min-fit <level>", "minimum fit (default: marginal)").choices([...FIT_LEVELS]))
    .option("--quantization <name>", "only this quantization (default: the best one)", parseQuantization)
    .option("--draft <model>", "small catalog model for speculative decoding")
    .option(
      "--draft-tokens <count>",
      `number of tokens that the draft model proposes in one step (default: ${DRAFT_TOKENS})`,
      countParser(1),
    )
    .addOption(new Option("--compat <program>", "use the formulas of llmfit 1.1.10").choices(["llmfit"]))
    .addOption(catalogOption());
}

export async function fitModels(flags: ModelsFlags, clusterFlags: ClusterFlags): Promise<void> {
  const { machine: described, benchmarks } = await machineFor(flags, clusterFlags);
  const catalog = await readCatalogFiles(flags.catalog);
  const { records } = catalog;
  const machine = calibrate(described, speedRatios(benchmarks.results.values(), createMatcher(records)));
  const least = flags.minFit ?? "marginal";
  if (flags.compat === "llmfit") return fitAsLlmfit(records, machine, flags);
  const request = {
    useCase: flags.useCase,
    contextSize: flags.context ?? DEFAULT_CONTEXT,
    cacheType: flags.cacheType ?? "f16",
    families: familiesOn(machine.accelerator),
    quantization: flags.quantization,
    draft:
      flags.draft === undefined
        ? undefined
        : { record: recordNamed(catalog, flags.draft), tokens: flags.draftTokens ?? DRAFT_TOKENS },
  };
  const ranked = rankModels(records, machine, request).filter(({ level }) => isAtLeast(level, least));
  const models = ranked.slice(0, flags.limit ?? LIMIT);
  const answer = { machine, ...request, total: ranked.length, models };
  printResult(flags.output, answer, (shown) => renderModels(shown, flags.output === "wide"));
  if (models.length === 0) process.exitCode = exitCodes.failed;
}

function fitAsLlmfit(records: readonly CatalogRecord[], machine: Machine, flags: ModelsFlags): void {
  const { minFit: least = "marginal", context: maxContext = DEFAULT_CONTEXT, limit = LIMIT, output } = flags;
  const models = llmfitRows(records, llmfitSystem(machine), {
    minLevel: least,
    maxContext,
    now: Date.now(),
  }).slice(0, limit);
  printResult(output, { models }, () => renderLlmfit(models));
  if (models.length === 0) process.exitCode = exitCodes.failed;
}

interface FittingModels {
  readonly machine: Machine;
  readonly contextSize: number;
  readonly total: number;
  readonly models: readonly ModelFit[];
}

function renderModels({ machine, contextSize, total, models }: FittingModels, isWide: boolean): string {
  const { name, chip, budgetBytes, bandwidthGBs } = machine;
  const about = `${name}: ${chip || "unknown chip"}, ${formatBytes(budgetBytes)} for engines, ${bandwidthGBs} GB/s`;
  const head = ["MODEL", "SCORE", "FIT", "QUANTIZATION", "MEMORY", "TOKENS/S", "CONTEXT"];
  const wide = ["QUALITY", "SPEED", "ROOM", "PROMPT/S", "FIRST TOKEN", "LOAD", "WHY"];
  const rows = models.map((one) => [...columnsOf(one), ...(isWide ? moreColumnsOf(one) : [])]);
  const fitting = `${total} models fit this memory with ${contextSize} tokens of context`;
  const shown = total > models.length ? `${fitting}, the best ${models.length}:` : fitting;
  if (total === 0) return `${about}\nno model fits; see --min-fit, --context and --quantization`;
  return [about, shown, "", ...alignColumns([[...head, ...(isWide ? wide : [])], ...rows])].join("\n");
}

function columnsOf(one: ModelFit): string[] {
  return [
    ...[one.model, one.score.total.toFixed(1), one.level, one.quantization, formatBytes(one.claimBytes)],
    ...[figureText(one.tokensPerSecond), String(one.contextThatFits)],
  ];
}

function moreColumnsOf({ score, ...one }: ModelFit): string[] {
  return [
    ...[score.quality, score.speed, score.fit].map((points) => points.toFixed(0)),
    ...[figureText(one.promptTokensPerSecond), figureText(one.firstTokenSeconds, " s")],
    ...[figureText(one.loadSeconds, " s"), one.reasons.join("; ")],
  ];
}

/** "47.3 (calibrated)" */
function figureText(figure: Figure | undefined, unit = ""): string {
  return figure === undefined ? "" : `${Number(figure.value.toPrecision(3))}${unit} (${figure.basis})`;
}

function parseQuantization(name: string): Quantization {
  const known = quantizationOf(name);
  if (known !== undefined) return known;
  throw new InvalidArgumentError(`It must be one of ${quantizationNames()}.`);
}

const GIB = 1024 ** 3;
/** Share of manually specified memory that llmfit counts as free. */
const FREE_SHARE = 0.9;

/** `metalbridge fit --compat llmfit`: computes the fit with the formulas of llmfit. */
function renderLlmfit(rows: readonly LlmfitRow[]): string {
  const head = ["MODEL", "SCORE", "FIT", "MODE", "QUANTIZATION", "MEMORY", "TOKENS/S"];
  const cells = rows.map((row) => [
    ...[row.name, row.score.toFixed(1), row.fit_level, row.run_mode, row.best_quant],
    ...[
      `${row.memory_required_gb.toFixed(2)} / ${row.memory_available_gb.toFixed(2)}`,
      row.estimated_tps.toFixed(1),
    ],
  ]);
  return formatTable(head, cells);
}

function llmfitSystem({ chip, memoryBytes, cpuCores, generation }: Machine): LlmfitSystem {
  const totalGb = memoryBytes / GIB;
  const isApple = generation !== undefined;
  const base = { availableRamGb: totalGb * FREE_SHARE, cpuCores, isArm: isApple };
  if (!isApple) return base;
  return {
    ...base,
    gpu: {
      name: /apple/i.test(chip) ? chip : `Apple ${chip}`,
      vramGb: totalGb,
      isUnified: true,
      backend: "Metal",
    },
  };
}

/** The machine to check models for: a Host of the cluster, a machine described by flags, or this machine. */
interface MachineFlags {
  readonly host?: string;
  readonly memory?: string;
  readonly chip?: string;
  readonly gpuCores?: number;
}

interface FitMachine {
  readonly machine: Machine;
  /** Measured speeds of the cluster, if the machine is a Host. */
  readonly benchmarks: BenchmarkTable;
}

/** Throws `MachineUnusable` if the machine description is invalid. */
async function machineFor(flags: MachineFlags, clusterFlags: ClusterFlags): Promise<FitMachine> {
  const { read, benchmarks } = await readFor(flags, clusterFlags);
  if (read.at === "known") return { machine: read.machine, benchmarks };
  throw new MetalbridgeError("MachineUnusable", read.why);
}

async function readFor(flags: MachineFlags, clusterFlags: ClusterFlags) {
  const { host } = flags;
  if (host === undefined) return { read: await readDescribed(flags), benchmarks: NO_BENCHMARKS };
  return withCluster("fit", clusterFlags, async (cluster) => ({
    read: machineOf(await findObject(cluster, HOSTS, host)),
    benchmarks: (await readBenchmarkTable(cluster)) ?? NO_BENCHMARKS,
  }));
}

async function readDescribed({ memory, chip, gpuCores }: MachineFlags): Promise<MachineRead> {
  if (memory === undefined && chip === undefined) {
    const machine = await thisMachine();
    return readMachine({ ...machine, gpuCores: gpuCores ?? machine.gpuCores });
  }
  const memoryBytes = parseQuantity(memory ?? "");
  if (memoryBytes === undefined)
    return { at: "unusable", why: `--memory ${memory ?? "is missing: it"} must be a size such as 32Gi` };
  return readMachine({
    name: `${chip ?? "machine"} with ${memory}`,
    chip: chip ?? "",
    accelerator: hostAccelerator(chip === undefined ? "linux" : "darwin"),
    gpuCores,
    ...memoryOf(memoryBytes),
  });
}

async function thisMachine(): Promise<MachineInput> {
  return {
    name: hostname(),
    chip: cpus()[0]?.model ?? "",
    accelerator: hostAccelerator(process.platform),
    cpuCores: cpus().length,
    gpuCores: process.platform === "darwin" ? await readGpuCores() : undefined,
    ...memoryOf(totalmem()),
  };
}

/** The default memory limit of the GPU. For a CPU, the same share is reserved for other programs. */
function memoryOf(totalBytes: number): Pick<MachineInput, "memoryBytes" | "budgetBytes"> {
  const memory = { evictionEnabled: true };
  const spec = { addresses: [], unschedulable: false, drain: false, memory };
  const budget = hostBudget({ spec, status: { memory: { totalBytes } } });
  return { memoryBytes: totalBytes, budgetBytes: budget.known ? budget.bytes : undefined };
}

/** Chips with different core counts share a name, so the number of cores decides the bandwidth. */
async function readGpuCores(): Promise<number | undefined> {
  const args = ["-r", "-d", "1", "-w", "0", "-c", "IOAccelerator"];
  const { stdout } = await promisify(execFile)("/usr/sbin/ioreg", args, { timeout: 5_000 }).catch(() => ({
    stdout: "",
  }));
  const cores = Number(/"gpu-core-count" = (\d+)/.exec(stdout)?.[1]);
  return Number.isInteger(cores) ? cores : undefined;
}
