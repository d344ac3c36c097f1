/** The weights of the demo, as the `spec.source` of a Model: generated, or from the user. */
import { createReadStream, existsSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { createGgufReader } from "../../src/models/gguf/header.ts";
import { parseSource } from "../../src/models/source/parse.ts";
import { errorMessage } from "../../src/util/error-message.ts";
import { ensureFolder } from "../control-plane/state/folder.ts";
import { writeTinyModel } from "./tiny-model.ts";

export interface DemoSource {
  readonly source: string;
  /** Path of the file, if it is on this machine. */
  readonly path?: string;
}

/** Throws early for errors that would otherwise be conditions after the start of the system. */
export async function demoSource(options: {
  readonly dir: string;
  readonly model?: string | undefined;
}): Promise<DemoSource> {
  const folder = join(options.dir, "models");
  await ensureFolder(folder);
  if (options.model !== undefined) return namedSource(options.model);
  const path = join(folder, "quickstart.gguf");
  await writeTinyModel(path);
  return localSource(path);
}

async function namedSource(model: string): Promise<DemoSource> {
  if (!isPath(model)) {
    const parsed = parseSource(model);
    if (parsed.kind === "ollama") {
      throw new MetalbridgeError("SourceNotSupported", `${model}: the demo runs GGUF files only`, {
        summary: "give --model a GGUF file: a path, hf://org/repo/file.gguf or https://…",
      });
    }
    return parsed.kind === "file" ? { ...(await existing(parsed.path)), source: model } : { source: model };
  }
  return existing(resolve(model));
}

/** `models/a.gguf` is treated as a path, although a repository could have that name. */
function isPath(model: string): boolean {
  return /^\.{0,2}\//.test(model) || existsSync(model) || /^[^/:]+\/[^/:]+\.gguf$/i.test(model);
}

async function existing(path: string): Promise<DemoSource> {
  if (existsSync(path)) {
    if (statSync(path).isFile()) await requireGguf(path);
    return localSource(path);
  }
  throw new MetalbridgeError("SourceNotFound", `${path} does not exist on this machine`, {
    summary: "give --model a path that exists, hf://org/repo/file.gguf or https://…",
  });
}

/** Reads the header. Throws the error that the agent would report later: the file is not GGUF, or is truncated. */
async function requireGguf(path: string): Promise<void> {
  const reader = createGgufReader();
  try {
    for await (const chunk of createReadStream(path)) if (reader.feed(chunk).done) return;
    throw reader.cutOff();
  } catch (error) {
    if (error instanceof MetalbridgeError)
      throw new MetalbridgeError(error.code, `${path}: ${error.message}`, error.remedy);
    const message = errorMessage(error);
    throw new MetalbridgeError("SourceNotFound", `${path} cannot be read: ${message}`, {
      summary: "give --model a file that you may read",
    });
  }
}

/** A path with blanks becomes a URL, because a source may not contain blanks. */
function localSource(path: string): DemoSource {
  return { path, source: /\s/.test(path) ? pathToFileURL(path).href : path };
}
