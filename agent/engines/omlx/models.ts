/** Models of our store in a server's folder, each under a name of its own. */
import { mkdir, readFile, readlink, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { systemCode, writeFileAtomic } from "../../../src/util/atomic-file.ts";
import { createSerializer } from "../../../src/util/serializer.ts";
import type { StoredFile } from "../../store/types.ts";
import { parseJson } from "../io/http.ts";

export interface OmlxModelFolder {
  readonly dir: string;
  readonly place: (model: string, files: readonly StoredFile[]) => Promise<void>;
  /** An empty model beside it: its name. */
  readonly placeStub: (model: string) => Promise<string>;
  /** With the settings that the server has stored for it. */
  readonly forget: (model: string) => Promise<void>;
}

const SETTINGS_FILE = "model_settings.json";
const settingsSchema = z.looseObject({ models: z.record(z.string(), z.unknown()) });
const STUB = "-stub";

/** Settings of models that are not ours stay as they are. */
export function modelFolder(basePath: string, dir: string): OmlxModelFolder {
  // One change after the other: each writes the whole file.
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
    place: (model, files) => link(join(dir, model), files),
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

async function readSettings(path: string): Promise<z.output<typeof settingsSchema> | undefined> {
  const text = await readFile(path, "utf8").catch((error: unknown) => {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  });
  if (text === undefined) return undefined;
  const parsed = settingsSchema.safeParse(parseJson(text));
  if (!parsed.success) throw new Error(`${path} is not what oMLX writes; it is left as it is`);
  return parsed.data;
}
