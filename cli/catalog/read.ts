/** Reads the built-in catalog and the additional files of the user. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Option } from "commander";
import { matchName, nearestNames } from "../../fitness/catalog/match.ts";
import { type Catalog, type CatalogRecord, readCatalog } from "../../fitness/catalog/record.ts";
import { packageRoot } from "../../local/package-root.ts";
import { MetalbridgeError, remedyOf } from "../../src/api/errors.ts";

/** `--catalog <file...>` */
export function catalogOption(): Option {
  return new Option(
    "--catalog <file...>",
    "additional catalog records, as JSON lines or as an llmfit array; they override built-in records of the same name",
  );
}

/** Throws `CatalogUnreadable`. */
export async function readCatalogFiles(files: readonly string[] = []): Promise<Catalog> {
  const own = await readText(join(packageRoot(), "catalog", "models.jsonl"));
  return readCatalog(own, ...(await Promise.all(files.map(readText))));
}

/** Throws `CatalogModelUnknown` unless the name matches exactly one model. */
export function recordNamed({ records }: Catalog, name: string): CatalogRecord {
  const match = matchName(records, name);
  if (match.at === "one") return match.record;
  const nearest = match.at === "several" ? match.records.map((one) => one.name) : nearestNames(records, name);
  const what = match.at === "several" ? "means several models" : "is not in the catalog";
  const list =
    nearest.length === 0 ? "" : `: ${match.at === "several" ? "" : "nearest are "}${nearest.join(", ")}`;
  const words = name.slice(0, 128);
  const remedy = remedyOf("CatalogModelUnknown", { words });
  throw new MetalbridgeError("CatalogModelUnknown", `${words} ${what}${list}`, remedy);
}

export function catalogUnreadable(file: string, why: string, options?: ErrorOptions): MetalbridgeError {
  const remedy = remedyOf("CatalogUnreadable", { file });
  return new MetalbridgeError("CatalogUnreadable", `${file} ${why}`, remedy, options);
}

async function readText(file: string): Promise<string> {
  return readFile(file, "utf8").catch((cause: unknown) => {
    throw catalogUnreadable(file, "cannot be read", { cause });
  });
}
