/** Links models of the agent's store into a server's folder, each under its own name. */
import { mkdir, readFile, readlink, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { ifExists, writeFileAtomic } from "../../../src/util/atomic-file.ts";
import { parseJson } from "../../../src/util/parse-json.ts";
import { createSerializer } from "../../../src/util/serializer.ts";
import type { StoredFile } from "../../store/types.ts";

export interface OmlxModelFolder {
  readonly dir: string;
  readonly place: (model: string, files: readonly StoredFile[]) => Promise<void>;
  /** Creates an empty model next to it, and returns the stub's name. */
  readonly placeStub: (model: string) => Promise<string>;
  /** Removes the model, its stub, and the settings that the server has stored for it. */
  readonly forget: (model: string) => Promise<void>;
}

const SETTINGS_FILE = "model_settings.json";
const settingsSchema = z.looseObject({ models: z.record(z.string(), z.unknown()) });
const STUB = "-stub";

/** Settings of models that other clients use stay unchanged. */
export function modelFolder(basePath: string, dir: string): OmlxModelFolder {
  // Changes are serialized: each one writes the whole file.
  const inTurn = createSerializer();
  const forgetSettings = (model: string): Promise<void> =>
    inTurn(async () => {
      const path = join(basePath, SETTINGS_FILE);
      const before = await readSettings(path);
      if (before === undefined || !Object.hasOwn(before.models, model)) return;
      const { [model]: _, ...models } = before.models;
      await writeFileAtomic(path, `${JSON.stringify({ ...before, models }, undefined, 2)}\n`);
    });
  return {
    dir,
    place: (model, files) => linkFiles(join(dir, model), files),
    placeStub: async (model) => {
      const name = `${model}${STUB}`;
      await mkdir(join(dir, name), { recursive: true, mode: 0o700 });
      await writeFile(join(dir, name, "config.json"), "{}\n");
      return name;
    },
    forget: async (model) => {
      for (const name of [model, `${model}${STUB}`])
        await rm(join(dir, name), { recursive: true, force: true });
      await forgetSettings(model);
    },
  };
}

/** Links instead of copies: the store keeps the files while a replica uses them. */
async function linkFiles(folder: string, files: readonly StoredFile[]): Promise<void> {
  const links = await Promise.all(
    files.map(async ({ name, path }) => ({ name: join(folder, name), target: await realpath(path) })),
  );
  const targets = await Promise.all(links.map(({ name }) => readlink(name).catch(() => undefined)));
  if (links.every(({ target }, index) => targets[index] === target)) return;
  await rm(folder, { recursive: true, force: true });
  for (const { name, target } of links) {
    await mkdir(dirname(name), { recursive: true, mode: 0o700 });
    await symlink(target, name);
  }
}

async function readSettings(path: string): Promise<z.output<typeof settingsSchema> | undefined> {
  const text = await ifExists(readFile(path, "utf8"));
  if (text === undefined) return undefined;
  const parsed = settingsSchema.safeParse(parseJson(text));
  if (!parsed.success) throw new Error(`${path} was not written by oMLX; it is left unchanged`);
  return parsed.data;
}
