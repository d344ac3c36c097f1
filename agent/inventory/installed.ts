/** Finds the programs on this machine that run models, and their models: from a running Ollama, and from the programs' folders. */
import { z } from "zod";
import type { InstalledModel, InstalledRuntime } from "../../src/api/node-report.ts";
import { ollamaVersion } from "../../src/engines/ollama/version.ts";
import { parseJson } from "../../src/util/parse-json.ts";
import { type Address, sendEngineRequest } from "../engines/driver/http.ts";
import { folderOfKind, foldersInHome, modelsIn } from "./folders.ts";
import { runningRuntimes } from "./processes.ts";

export interface InstalledPlaces {
  /** Home folders of users who run such programs. */
  readonly homes: readonly string[];
  /** More folders with models of any kind. */
  readonly folders: readonly string[];
  /** Queried instead of Ollama's folders; undefined: it cannot be reached. */
  readonly ollama?: Address | undefined;
  /** The proc file system with the processes to read; undefined: none is read. */
  readonly proc?: string | undefined;
}

export interface InstalledSoftware {
  readonly runtimes: readonly InstalledRuntime[];
  readonly models: readonly InstalledModel[];
}

const TIMEOUT_MS = 2_000;
const versionSchema = z.object({ version: z.string().min(1).max(64) });
const tagsSchema = z.object({
  models: z.array(z.object({ name: z.string().min(1), size: z.number().nonnegative().optional() })),
});

/** Sorted and without duplicates; never throws. Reads one folder at a time, so that a volume that hangs occupies only one thread. */
export async function readInstalled(places: InstalledPlaces): Promise<InstalledSoftware> {
  const ollama = places.ollama === undefined ? undefined : await queryOllama(places.ollama);
  const folders = places.homes.flatMap(foldersInHome);
  for (const path of places.folders) folders.push(await folderOfKind(path));
  const found: InstalledSoftware[] = [];
  for (const folder of folders) {
    if (ollama !== undefined && folder.runtime === "ollama") continue;
    const models = await modelsIn(folder);
    const isInstalled = models.length > 0 && folder.isOfProgram;
    found.push({ models, runtimes: isInstalled ? [{ name: folder.runtime }] : [] });
  }
  const running = places.proc === undefined ? [] : await runningRuntimes(places.proc);
  const runtimes = [...(ollama?.runtimes ?? []), ...running, ...found.flatMap(({ runtimes }) => runtimes)];
  const models = [...(ollama?.models ?? []), ...found.flatMap(({ models }) => models)];
  return {
    runtimes: distinct(runtimes, ({ name }) => name),
    models: distinct(models, ({ name, runtime }) => `${name} ${runtime}`),
  };
}

/** Undefined unless both answers are valid: a flapping list would be published each time. */
async function queryOllama(address: Address): Promise<InstalledSoftware | undefined> {
  const get = async (path: string): Promise<unknown> => {
    const answer = await sendEngineRequest({ ...address, path, timeoutMs: TIMEOUT_MS });
    return "failed" in answer || answer.status !== 200 ? undefined : parseJson(answer.body);
  };
  const version = versionSchema.safeParse(await get("/api/version"));
  if (!version.success) return undefined;
  const tags = tagsSchema.safeParse(await get("/api/tags"));
  if (!tags.success) return undefined;
  return {
    runtimes: [{ name: "ollama", version: ollamaVersion(version.data.version) }],
    models: tags.data.models.map(({ name, size }) => ({
      name: `ollama://${name}`,
      runtime: "ollama",
      sizeBytes: Number.isSafeInteger(size) ? size : undefined,
    })),
  };
}

/** The first value of each key, in the order of keys, so that equal findings make equal reports. */
function distinct<T>(all: readonly T[], keyOf: (one: T) => string): readonly T[] {
  const byKey = new Map<string, T>();
  for (const one of all) if (!byKey.has(keyOf(one))) byKey.set(keyOf(one), one);
  return [...byKey].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, one]) => one);
}
