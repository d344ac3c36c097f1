/** `metalbridge catalog`: the models that are known, where their figures come from, and whether they are right. */

import { type Command, Option } from "commander";
import { recordDiscrepancies } from "../fitness/catalog/check.ts";
import { searchRecords } from "../fitness/catalog/match.ts";
import { fileSize, ladderOf } from "../fitness/catalog/quantizations.ts";
import type { CatalogRecord } from "../fitness/catalog/record.ts";
import { keyValueBytesPerToken } from "../fitness/scoring/claim.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import { formatBytes } from "../src/util/bytes.ts";
import { catalogOption, readCatalogFiles, recordNamed } from "./catalog/read.ts";
import { updateCatalog } from "./catalog/update.ts";
import { countParser, outputFlag } from "./cluster/flags.ts";
import { readGguf } from "./gguf/read.ts";
import { exitCodes } from "./program/exit-codes.ts";
import { writeOut } from "./program/output.ts";
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
  listing(command.command("list"), "list the models").action((flags: ListFlags) => list("", flags));
  listing(command.command("search"), "list the models with these words in name, use or license")
    .argument("<words...>", "words that must all be there")
    .action((words: string[], flags: ListFlags) => list(words.join(" "), flags));
  command
    .command("show")
    .description("show one model: shapes, files, sources, and where the figures come from")
    .argument("<model>", "a name, a repository or a file name; it must mean one model")
    .addOption(catalogOption())
    .addOption(outputFlag())
    .action(show);
  command
    .command("check")
    .description("check every record, or hold one against the header of its file")
    .argument("[model]", "the model that --file holds")
    .option("--file <file>", "a GGUF file: a path, https://… or hf://org/repo[/file]")
    .addOption(catalogOption())
    .action(check);
  command
    .command("update")
    .description("read models from the Hub's API into a file of your own, to be given with --catalog")
    .argument("[models...]", "repositories (org/name); by default those that the file has")
    .requiredOption("--write <file>", "JSON lines to write; what it has of other models stays")
    .option("--gguf <repository...>", "repositories with the GGUF files of the one model that is named")
    .option("--endpoint <url>", "the Hub, or a mirror with the same API", "https://huggingface.co")
    .option("--token-file <file>", "file with a token of the Hub, for gated models")
    .action(updateCatalog);
}

function listing(command: Command, description: string): Command {
  return command
    .description(description)
    .option("--limit <count>", "at most so many", countParser(1))
    .addOption(catalogOption())
    .addOption(new Option("-o, --output <format>", "how to print it").choices(["wide", "json"]));
}

async function list(words: string, { catalog, output, limit }: ListFlags): Promise<void> {
  const { records } = await readCatalogFiles(catalog);
  const found = searchRecords(records, words).slice(0, limit);
  if (output === "json") return print(JSON.stringify(found, undefined, 2));
  const isWide = output === "wide";
  const head = ["NAME", "PARAMETERS", "ACTIVE", "CONTEXT", "USE", "RELEASED"];
  const wide = ["LICENSE", "LAYERS", "KV PER 1000 TOKENS", "GGUF", "MLX"];
  const table = [[...head, ...(isWide ? wide : [])], ...found.map((record) => rowOf(record, isWide))];
  print(alignColumns(table).join("\n"));
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
  if (output === "json") return print(JSON.stringify(record, undefined, 2));
  const { name: _, files_gb, gguf_sources, mlx_sources, ...rest } = record;
  const facts = Object.entries(rest).filter(([, value]) => value !== undefined && value !== null);
  const files = (["gguf", "mlx"] as const).flatMap((family) => ladderOf(record, family));
  print(
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
    throw new MetalbridgeError("CatalogModelUnknown", "a model and --file are given together, or neither", {
      summary: "name the model that the file holds",
    });
  const read = await readCatalogFiles(catalog);
  const wrong = [...read.refused.map(({ where, why }) => `${where}: ${why}`)];
  if (name !== undefined && file !== undefined) {
    const record = recordNamed(read, name);
    wrong.push(
      ...recordDiscrepancies(record, (await readGguf(file)).summary).map((why) => `${record.name}: ${why}`),
    );
  } else
    wrong.push(
      ...read.records.flatMap((record) => recordDiscrepancies(record).map((why) => `${record.name}: ${why}`)),
    );
  for (const line of wrong) print(line);
  print(wrong.length === 0 ? "no contradictions" : `${wrong.length} contradictions`);
  if (wrong.length > 0) process.exitCode = exitCodes.failed;
}

function print(text: string): void {
  writeOut(`${text}\n`);
}
