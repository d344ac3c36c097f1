/** Reads install.json, the record of the options of an installation. */
import { readFile } from "node:fs/promises";
import { MetalbridgeError } from "../src/api/errors.ts";
import { placesBelow } from "./layout/layout.ts";
import { type Choices, choicesSchema } from "./plan/entries.ts";

/** Undefined if nothing is installed below the prefix. Throws InstallUnreadable. */
export async function readChoices(prefix: string): Promise<Choices | undefined> {
  const file = placesBelow(prefix).choices;
  const text = await readFile(file, "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  try {
    return choicesSchema.parse(JSON.parse(text));
  } catch (cause) {
    throw new MetalbridgeError("InstallUnreadable", `${file} cannot be parsed`, undefined, { cause });
  }
}
