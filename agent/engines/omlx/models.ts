/** Puts models of our store into a server's folder, each under a name of its own, and their settings beside them. */
import { mkdir, readFile, readlink, realpath, rm, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import type { OmlxSettings } from "../../../src/engines/omlx/settings.ts";
import { systemCode, writeFileAtomic } from "../../atomic-file.ts";
import type { StoredFile } from "../../store/types.ts";
import { parseJson } from "../http.ts";

export interface ModelFolder {
  readonly dir: string;
  readonly place: (model: string, files: readonly StoredFile[], settings: OmlxSettings) => Promise<void>;
  readonly forget: (model: string) => Promise<void>;
}

const SETTINGS_FILE = "model_settings.json";
const settingsSchema = z.looseObject({ models: z.record(z.string(), z.unknown()) });
const EMPTY = { version: 1, models: {} };

/** Settings of models that are not ours stay as they are. */
export function modelFolder(basePath: string, dir: string): ModelFolder {
  // One change after the other: each writes the whole file.
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const turn = last.then(work);
    last = turn.catch(() => undefined);
    return turn;
  };
  const change = (model: string, settings: OmlxSettings["model"] | undefined): Promise<void> =>
    inTurn(async () => {
      const path = join(basePath, SETTINGS_FILE);
      const before = await readSettings(path);
      const { [model]: known, ...others } = before.models;
      if (JSON.stringify(known) === JSON.stringify(settings)) return;
      const models = settings === undefined ? others : { ...others, [model]: settings };
      await writeFileAtomic(path, `${JSON.stringify({ ...before, models }, undefined, 2)}\n`);
    });
  return {
    dir,
    place: async (model, files, { model: settings }) => {
      await link(join(dir, model), files);
      await change(model, settings);
    },
    forget: async (model) => {
      await change(model, undefined);
      await rm(join(dir, model), { recursive: true, force: true });
    },
  };
}

/** Links, not copies: the store keeps the files for as long as a replica uses them, and none outlives it. */
async function link(folder: string, files: readonly StoredFile[]): Promise<void> {
  const wanted = await Promise.all(
    files.map(async ({ name, path }) => ({ name: join(folder, name), target: await realpath(path) })),
  );
  const targets = await Promise.all(wanted.map(({ name }) => readlink(name).catch(() => undefined)));
  if (wanted.every(({ target }, index) => targets[index] === target)) return;
  await rm(folder, { recursive: true, force: true });
  for (const { name, target } of wanted) {
    await mkdir(dirname(name), { recursive: true, mode: 0o700 });
    await symlink(target, name);
  }
}

async function readSettings(path: string): Promise<z.output<typeof settingsSchema>> {
  const text = await readFile(path, "utf8").catch((error: unknown) => {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  });
  if (text === undefined) return EMPTY;
  const parsed = settingsSchema.safeParse(parseJson(text));
  if (!parsed.success) throw new Error(`${path} is not what oMLX writes; it is left as it is`);
  return parsed.data;
}
