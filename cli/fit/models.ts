/** `metalbridge fit` without a model: lists the catalog models that fit a machine, the best first. */

import { type Command, InvalidArgumentError, Option } from "commander";
import { createMatcher } from "../../fitness/catalog/match.ts";
import {
  familiesOn,
  type Quantization,
  quantizationNames,
  quantizationOf,
} from "../../fitness/catalog/quantizations.ts";
import type { CatalogRecord } from "../../fitness/catalog/record.ts";
import { llmfitRows } from "../../fitness/llmfit/fit.ts";
import { calibrate, speedRatios } from "../../fitness/scoring/calibration.ts";
import { isAtLeast, type ModelFit, rankModels } from "../../fitness/scoring/fitness.ts";
import type { Machine } from "../../fitness/scoring/machine.ts";
import { DEFAULT_CONTEXT } from "../../fitness/scoring/replica-fit.ts";
import { FIT_LEVELS, type FitLevel, USE_CASES, type UseCase } from "../../fitness/scoring/score.ts";
import { DRAFT_TOKENS } from "../../fitness/scoring/speculation.ts";
import type { Estimate } from "../../fitness/scoring/speed.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import { catalogOption, readCatalogFiles, recordNamed } from "../catalog/read.ts";
import { type ClusterFlags, countParser, parseHostName } from "../cluster/flags.ts";
import { exitCodes } from "../program/exit-codes.ts";
import { printResult } from "../program/output.ts";
import { alignColumns } from "../program/table.ts";
import { llmfitSystem, renderLlmfit } from "./llmfit.ts";
import { type MachineFlags, machineFor } from "./machine.ts";

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
    claimedContext: flags.context,
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
function figureText(figure: Estimate | undefined, unit = ""): string {
  return figure === undefined ? "" : `${Number(figure.value.toPrecision(3))}${unit} (${figure.basis})`;
}

function parseQuantization(name: string): Quantization {
  const known = quantizationOf(name);
  if (known !== undefined) return known;
  throw new InvalidArgumentError(`It must be one of ${quantizationNames()}.`);
}
