/** Facts about a folder of safetensors: its `config.json`, and how large its weights are. */
import { readFile, stat } from "node:fs/promises";
import { basename } from "node:path";
import { parseMlxConfig, parseSafetensorsIndex } from "../../../src/models/mlx/config.ts";
import { summarizeMlx } from "../../../src/models/mlx/summary.ts";
import type { ModelFacts, StoredModel } from "../types.ts";

/** Real ones have some KiB; an index of a very large model some MiB. */
const MOST_BYTES = 32 << 20;

/** Empty where there is no configuration that can be read: then nothing is known, and nothing is admitted. */
export async function inspectMlx({ files }: StoredModel): Promise<Pick<ModelFacts, "gguf" | "problem">> {
  const weights = files.filter(({ name }) => name.endsWith(".safetensors"));
  const config = parseMlxConfig(await textOf(files, "config.json"));
  if (weights.length === 0 || config === undefined) return {};
  const onDisk = weights.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  const indexed = parseSafetensorsIndex(await textOf(files, "model.safetensors.index.json")) ?? 0;
  if (indexed > onDisk) {
    const message = `the weights have ${onDisk} bytes, their index describes ${indexed}`;
    return { problem: { code: "GgufTruncated", message } };
  }
  return { gguf: summarizeMlx(config, onDisk) };
}

async function textOf(files: StoredModel["files"], name: string): Promise<string> {
  const path = files.find((file) => basename(file.name) === name)?.path;
  if (path === undefined) return "";
  try {
    if ((await stat(path)).size > MOST_BYTES) return "";
    return await readFile(path, "utf8");
  } catch {
    return "";
  }
}
