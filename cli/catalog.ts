/** `metalbridge catalog`: lists, checks and updates the catalog of models. */

import type { Command } from "commander";
import { recordDiscrepancies } from "../fitness/catalog/check.ts";
import { searchRecords } from "../fitness/catalog/match.ts";
import { fileSize, ladderOf } from "../fitness/catalog/quantizations.ts";
import type { CatalogRecord } from "../fitness/catalog/record.ts";
import { keyValueBytesPerToken } from "../fitness/scoring/claim.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import type { GgufSummary } from "../src/models/gguf/summary.ts";
import { formatBytes } from "../src/util/bytes.ts";
import { catalogOption, readCatalogFiles, recordNamed } from "./catalog/read.ts";
import { updateCatalog } from "./catalog/update.ts";
import { countParser, formatOption, outputFlag } from "./cluster/flags.ts";
import { readGguf } from "./gguf/read.ts";
import { exitCodes } from "./program/exit-codes.ts";
import { printJson, printLine } from "./program/output.ts";
import { alignColumns, type Row } from "./program/table.ts";

interface Flags {
  readonly catalog?: readonly string[];
  readonly output?: string;
}
interface ListFlags extends Flags {
  readonly limit?: number;
}

/** Subcommands, options and actions of the verb. */
export function configureCatalog(command: Command): void {
  listing(command.command("list"), "List the models").action((flags: ListFlags) => list("", flags));
  listing(command.command("search"), "List the models that match words in their name, use or license")
    .argument("<words...>", "words that must all match")
    .action((words: string[], flags: ListFlags) => list(words.join(" "), flags));
  command
    .command("show")
    .description("Show one model: dimensions, files, sources, and the origin of the figures")
    .argument("<model>", "name, repository or file name of exactly one model")
    .addOption(catalogOption())
    .addOption(outputFlag())
    .action(show);
  command
    .command("check")
    .description("Check every record, or compare one record with the header of its file")
    .argument("[model]", "the model in --file")
    .option("--file <file>", "GGUF file: a path, https://… or hf://org/repo[/file]")
    .addOption(catalogOption())
    .action(check);
  command
    .command("update")
    .description("Read models from the Hugging Face API into a file for --catalog")
    .argument("[models...]", "repositories (org/name) (default: the models in the file)")
    .requiredOption("--write <file>", "file to write, in JSON lines; records of other models are retained")
    .option("--gguf <repository...>", "repositories with the GGUF files, for an update of one model")
    .option("--endpoint <url>", "Hugging Face endpoint or mirror", "https://huggingface.co")
    .option("--token-file <file>", "file with a Hugging Face token, for gated models")
    .action(updateCatalog);
}

function listing(command: Command, description: string): Command {
  return command
    .description(description)
    .option("--limit <count>", "maximum number of models", countParser(1))
    .addOption(catalogOption())
    .addOption(formatOption("wide", "json"));
}

async function list(words: string, { catalog, output, limit }: ListFlags): Promise<void> {
  const { records } = await readCatalogFiles(catalog);
  const found = searchRecords(records, words).slice(0, limit);
  if (output === "json") return printJson(found);
  const isWide = output === "wide";
  const head = ["NAME", "PARAMETERS", "ACTIVE", "CONTEXT", "USE", "RELEASED"];
  const wide = ["LICENSE", "LAYERS", "KV PER 1000 TOKENS", "GGUF", "MLX"];
  const table = [[...head, ...(isWide ? wide : [])], ...found.map((record) => rowOf(record, isWide))];
  printLine(alignColumns(table).join("\n"));
}

function rowOf(record: CatalogRecord, isWide: boolean): Row {
  const active =
    record.active_parameters === undefined ? "" : `${(record.active_parameters / 1e9).toFixed(1)}B`;
  const row = [
    ...[record.name, record.parameter_count, active, String(record.context_length)],
    ...[record.use_case, record.release_date ?? ""],
  ];
  if (!isWide) return row;
  const perToken = keyValueBytesPerToken(record);
  return [
    ...[...row, record.license ?? "", String(record.num_hidden_layers ?? "")],
    perToken === undefined ? "" : formatBytes(perToken * 1000),
    record.gguf_sources[0]?.repo ?? "",
    record.mlx_sources[0] ?? "",
  ];
}

async function show(name: string, { catalog, output }: Flags): Promise<void> {
  const record = recordNamed(await readCatalogFiles(catalog), name);
  if (output === "json") return printJson(record);
  const { name: _, files_gb, gguf_sources, mlx_sources, ...rest } = record;
  const facts = Object.entries(rest).filter(([, value]) => value !== undefined && value !== null);
  const files = (["gguf", "mlx"] as const).flatMap((family) => ladderOf(record, family));
  printLine(
    [
      record.name,
      ...alignColumns([
        ...facts.map(([key, value]) => [`  ${key}`, String(value)]),
        ...gguf_sources.map(({ repo }) => ["  gguf", `hf://${repo}`]),
        ...mlx_sources.map((repo) => ["  mlx", `hf://${repo}`]),
      ]),
      "files:",
      ...alignColumns(
        files.map((one) => {
          const { bytes, basis } = fileSize(record, one);
          return [`  ${one.name}`, formatBytes(bytes), basis];
        }),
      ),
    ].join("\n"),
  );
}

async function check(
  name: string | undefined,
  { catalog, file }: Flags & { readonly file?: string },
): Promise<void> {
  if ((name === undefined) !== (file === undefined))
    throw new MetalbridgeError("CatalogModelUnknown", "a model and --file are required together", {
      summary: "name the model in the file",
    });
  const read = await readCatalogFiles(catalog);
  const about = (record: CatalogRecord, header?: GgufSummary) =>
    recordDiscrepancies(record, header).map((why) => `${record.name}: ${why}`);
  const discrepancies =
    name !== undefined && file !== undefined
      ? about(recordNamed(read, name), (await readGguf(file)).summary)
      : read.records.flatMap((record) => about(record));
  const wrong = [...read.refused.map(({ where, why }) => `${where}: ${why}`), ...discrepancies];
  for (const line of wrong) printLine(line);
  printLine(wrong.length === 0 ? "no contradictions" : `${wrong.length} contradictions`);
  if (wrong.length > 0) process.exitCode = exitCodes.failed;
}
