/** Finds models in the folders of programs that run models: names and sizes, from file names alone. Bounded in time and length. */
import type { Dirent } from "node:fs";
import { opendir, readFile, stat } from "node:fs/promises";
import { basename, join, relative } from "node:path";
import type { InstalledModel } from "../../src/api/node-report.ts";
import { TRACES } from "../../src/engines/traces.ts";

export interface InstalledModelFolder {
  readonly path: string;
  readonly runtime: string;
  /** False if models in the folder do not show that the program is installed. */
  readonly isOfProgram: boolean;
}

const MIB = 1024 ** 2;
/** Maximum number of folders to read below one path, which may be an unrelated large folder. */
const MAX_FOLDERS = 2_000;
const MAX_FILES = 10_000;
const READ_AT_ONCE = 512;
const DEEPEST = 4;
const MAX_MANIFEST = MIB;
const WEIGHTS = /\.(gguf|safetensors|npz)$/i;
const PROJECTOR = /^mmproj/i;
/** Ollama omits its own registry from the names of models. */
const OLLAMA_LIBRARY = "registry.ollama.ai/library/";

/** The model folders of each program in a home folder. */
export function foldersInHome(home: string): readonly InstalledModelFolder[] {
  const ofPrograms = TRACES.flatMap(({ name, modelFolders = [] }) =>
    modelFolders.map((path) => ({ path: join(home, path), runtime: name, isOfProgram: true })),
  );
  const hub = { path: join(home, ".cache/huggingface/hub"), runtime: "huggingface", isOfProgram: false };
  return [...ofPrograms, hub];
}

/** Determines the kind of a folder that the operator named from its entries. */
export async function folderOfKind(path: string): Promise<InstalledModelFolder> {
  const names = (await entriesOf(path)).map(({ name }) => name);
  if (names.includes("manifests")) return { path, runtime: "ollama", isOfProgram: true };
  const isHub = names.some((name) => name.startsWith("models--"));
  return { path, runtime: isHub ? "huggingface" : "llamacpp", isOfProgram: false };
}

/** Empty if the folder does not exist or may not be read. */
export async function modelsIn({ path, runtime }: InstalledModelFolder): Promise<readonly InstalledModel[]> {
  if (runtime === "ollama") return ollamaModels(join(path, "manifests"));
  if (runtime === "huggingface") return hubModels(path);
  // Only LM Studio's layout is part of a model's name: publisher/model/file. The layout of other folders is private.
  const nameOf = (name: string): string => {
    if (name === ".") return basename(path);
    return runtime === "lmstudio" ? name : basename(name);
  };
  return (await weightsUnder(path)).map(({ name, sizeBytes }) => ({
    name: nameOf(name),
    runtime,
    sizeBytes,
  }));
}

/** A manifest for each tag: registry, namespace, model and tag are its path. */
async function ollamaModels(manifests: string): Promise<readonly InstalledModel[]> {
  const models: InstalledModel[] = [];
  for (const file of await filesUnder(manifests)) {
    const parts = relative(manifests, file).split("/");
    const tag = parts.pop();
    if (tag === undefined || parts.length < 2) continue;
    const name = `${parts.join("/")}/`.replace(OLLAMA_LIBRARY, "").slice(0, -1);
    const sizeBytes = await sizeInManifest(file);
    models.push({ name: `ollama://${name}:${tag}`, runtime: "ollama", sizeBytes });
  }
  return models;
}

async function sizeInManifest(file: string): Promise<number | undefined> {
  try {
    if ((await stat(file)).size > MAX_MANIFEST) return undefined;
    const { layers, config } = JSON.parse(await readFile(file, "utf8")) as Record<string, unknown>;
    if (!Array.isArray(layers)) return undefined;
    // Ollama's own definition of size, so that the report does not change when its server starts or stops.
    const blobs: readonly { readonly size?: unknown }[] = [...layers, config ?? { size: 0 }];
    const size = blobs.reduce((sum, blob) => sum + Number(blob?.size), 0);
    return Number.isSafeInteger(size) && size >= 0 ? size : undefined;
  } catch {
    return undefined;
  }
}

/** `models--org--name/snapshots/REVISION/…`: links to complete blobs. */
async function hubModels(hub: string): Promise<readonly InstalledModel[]> {
  const models: InstalledModel[] = [];
  for (const { name: folder } of await entriesOf(hub)) {
    if (!folder.startsWith("models--")) continue;
    const repository = folder.slice("models--".length).replaceAll("--", "/");
    const revisions = await entriesOf(join(hub, folder, "snapshots"));
    const found: Weights[] = [];
    for (const { name } of revisions.slice(0, 8))
      found.push(...(await weightsUnder(join(hub, folder, "snapshots", name))));
    for (const { name, sizeBytes } of distinct(found)) {
      const path = name === "." || !/\.gguf$/i.test(name) ? "" : `/${name}`;
      models.push({ name: `hf://${repository}${path}`, runtime: "huggingface", sizeBytes });
    }
  }
  return models;
}

interface Weights {
  /** The path of a GGUF file, or of the folder of other weights; `.` for the folder that was read. */
  readonly name: string;
  readonly sizeBytes: number;
}

/** One entry for each GGUF file, and for each folder of other weights; the parts of a model count together. */
async function weightsUnder(folder: string): Promise<readonly Weights[]> {
  const sizes = new Map<string, number>();
  const files = (await filesUnder(folder)).filter((path) => WEIGHTS.test(path));
  for (const path of files) {
    const file = relative(folder, path);
    const name = file.split("/").pop() ?? "";
    if (PROJECTOR.test(name) || name.startsWith(".")) continue;
    const key = /\.gguf$/i.test(name)
      ? file.replace(/-\d{5}-of-(\d{5}\.gguf)$/i, "-00001-of-$1")
      : folderOf(file);
    const size = (await stat(path).catch(() => undefined))?.size;
    if (size === undefined) continue;
    sizes.set(key, (sizes.get(key) ?? 0) + size);
  }
  return [...sizes].map(([name, sizeBytes]) => ({ name, sizeBytes }));
}

function folderOf(file: string): string {
  return file.split("/").slice(0, -1).join("/") || ".";
}

function distinct(weights: readonly Weights[]): readonly Weights[] {
  return [...new Map(weights.map((one) => [one.name, one])).values()];
}

/** Links to files count as files; links to folders are not followed. */
async function filesUnder(root: string): Promise<readonly string[]> {
  const files: string[] = [];
  const folders = [{ path: root, depth: 0 }];
  for (const { path, depth } of folders) {
    for (const entry of await entriesOf(path)) {
      const inner = join(path, entry.name);
      if (!entry.isDirectory()) files.push(inner);
      else if (depth < DEEPEST && folders.length < MAX_FOLDERS)
        folders.push({ path: inner, depth: depth + 1 });
    }
    if (files.length > MAX_FILES) break;
  }
  return files;
}

/** Reads at most MAX_FILES entries: a folder may have millions. */
async function entriesOf(folder: string): Promise<readonly Dirent[]> {
  const entries: Dirent[] = [];
  try {
    for await (const entry of await opendir(folder, { bufferSize: READ_AT_ONCE }))
      if (entries.push(entry) >= MAX_FILES) break;
  } catch {
    // The folder does not exist, or may not be read.
  }
  return entries.filter(({ name }) => !name.startsWith(".")).sort((a, b) => (a.name < b.name ? -1 : 1));
}
