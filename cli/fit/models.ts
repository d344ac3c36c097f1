/** `metalbridge fit` without a model: which models of the catalog fit a machine, the best first. */

import { type Command, InvalidArgumentError, Option } from "commander";
import {
  familiesOn,
  type Quantization,
  quantizationNames,
  quantizationOf,
} from "../../fitness/catalog/quantizations.ts";
import type { CatalogRecord } from "../../fitness/catalog/record.ts";
import { llmfitRows } from "../../fitness/llmfit/fit.ts";
import { type Fitness, isAtLeast, rankModels } from "../../fitness/scoring/fitness.ts";
import type { Machine } from "../../fitness/scoring/machine.ts";
import { FIT_LEVELS, type FitLevel, USE_CASES, type UseCase } from "../../fitness/scoring/score.ts";
import { DRAFT_TOKENS } from "../../fitness/scoring/speculation.ts";
import type { Figure } from "../../fitness/scoring/speed.ts";
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
const CONTEXT = 8192;

/** The options that only count where no model is named. */
export function addModelsFlags(command: Command): Command {
  return command
    .option(
      "--host <host>",
      "hold the models against this Host of the cluster (default: this machine)",
      parseHostName,
    )
    .option("--memory <size>", "… or against a machine with this much memory, such as 32Gi")
    .option("--chip <name>", "… and this chip, such as M4 Pro (default: a CPU)")
    .option("--gpu-cores <count>", "GPU cores, where the chip is sold with fewer too", countParser(1))
    .addOption(
      new Option("--use-case <name>", "what the model is for (default: general)").choices([...USE_CASES]),
    )
    .option("--limit <count>", `at most so many models (default: ${LIMIT})`, countParser(1))
    .addOption(
      new Option("--min-fit <level>", "at least this fit (default: marginal)").choices([...FIT_LEVELS]),
    )
    .option(
      "--quantization <name>",
      "only this quantization (default: the one that scores best)",
      parseQuantization,
    )
    .option("--draft <model>", "decode speculatively with this small model of the catalog, where it can help")
    .option(
      "--draft-tokens <count>",
      `tokens that it proposes in one step (default: ${DRAFT_TOKENS})`,
      countParser(1),
    )
    .addOption(
      new Option("--compat <program>", "with the formulas and errors of llmfit 1.1.10").choices(["llmfit"]),
    )
    .addOption(catalogOption());
}

export async function fitModels(flags: ModelsFlags, clusterFlags: ClusterFlags): Promise<void> {
  const machine = await machineFor(flags, clusterFlags);
  const catalog = await readCatalogFiles(flags.catalog);
  const { records } = catalog;
  const least = flags.minFit ?? "marginal";
  if (flags.compat === "llmfit") return fitAsLlmfit(records, machine, flags);
  const wish = {
    useCase: flags.useCase ?? "general",
    contextSize: flags.context ?? CONTEXT,
    cacheType: flags.cacheType ?? "f16",
    families: familiesOn(machine.accelerator),
    quantization: flags.quantization,
    draft:
      flags.draft === undefined
        ? undefined
        : { record: recordNamed(catalog, flags.draft), tokens: flags.draftTokens ?? DRAFT_TOKENS },
  };
  const ranked = rankModels(records, machine, wish).filter(({ level }) => isAtLeast(level, least));
  const models = ranked.slice(0, flags.limit ?? LIMIT);
  printResult(flags.output, { machine, ...wish, total: ranked.length, models }, () =>
    renderModels(machine, ranked.length, models, flags.output === "wide"),
  );
  if (models.length === 0) process.exitCode = exitCodes.failed;
}

function fitAsLlmfit(records: readonly CatalogRecord[], machine: Machine, flags: ModelsFlags): void {
  const { minFit: least = "marginal", context: maxContext = CONTEXT, limit = LIMIT, output } = flags;
  const models = llmfitRows(records, llmfitSystem(machine), { least, maxContext, now: Date.now() }).slice(
    0,
    limit,
  );
  printResult(output, { models }, () => renderLlmfit(models));
  if (models.length === 0) process.exitCode = exitCodes.failed;
}

function renderModels(machine: Machine, total: number, models: readonly Fitness[], isWide: boolean): string {
  const { name, chip, budgetBytes, bandwidthGBs } = machine;
  const about = `${name}: ${chip || "unknown chip"}, ${formatBytes(budgetBytes)} for engines, ${bandwidthGBs} GB/s`;
  const head = ["MODEL", "SCORE", "FIT", "QUANTIZATION", "MEMORY", "TOKENS/S", "CONTEXT"];
  const wide = ["QUALITY", "SPEED", "ROOM", "PROMPT/S", "FIRST TOKEN", "LOAD", "WHY"];
  const rows = models.map((one) => [...columnsOf(one), ...(isWide ? moreColumnsOf(one) : [])]);
  const shown =
    total > models.length ? `${total} models fit, the best ${models.length}:` : `${total} models fit`;
  if (total === 0) return `${about}\nno model fits; see --min-fit, --context and --quantization`;
  return [about, shown, "", ...alignColumns([[...head, ...(isWide ? wide : [])], ...rows])].join("\n");
}

function columnsOf(one: Fitness): string[] {
  return [
    ...[one.model, one.score.total.toFixed(1), one.level, one.quantization, formatBytes(one.claimBytes)],
    ...[figureText(one.tokensPerSecond), String(one.contextThatFits)],
  ];
}

function moreColumnsOf({ score, ...one }: Fitness): string[] {
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
  throw new InvalidArgumentError(`It has to be one of ${quantizationNames()}.`);
}
