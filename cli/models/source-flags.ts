/** Options that choose the files of a model source, for `fetch` and `models pull`. */
import { type Command, Option } from "commander";
import { formatSchema, type ModelFormat } from "../../src/api/fields/shared.ts";

export interface SourceFlags {
  readonly file?: string[];
  readonly ignore?: string[];
  readonly mmproj?: string;
  readonly sha256?: string;
  readonly quantization?: string;
  readonly format?: ModelFormat;
}

export function addSourceFlags(command: Command): Command {
  return command
    .option("--file <name...>", "files to download, the main file first")
    .option("--ignore <pattern...>", "patterns of files not to download, such as *.pth")
    .option("--mmproj <name>", "projector file of the same source")
    .option("--sha256 <hex>", "SHA-256 of the main file")
    .option("--quantization <name>", "quantization to choose, such as Q4_K_M")
    .addOption(new Option("--format <name>", "format of the weights").choices(formatSchema.options));
}
