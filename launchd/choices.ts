/** install.json: what install was asked for, so that the other verbs find it. */
import { readFile } from "node:fs/promises";
import * as z from "zod";
import { MetalbridgeError } from "../src/api/errors.ts";
import { placesBelow } from "./layout/layout.ts";
import type { Choices } from "./plan/entries.ts";

const optional = z.string().optional();

/** Keys of a newer version are left out: after a rollback this one has to read its record. */
const choicesSchema = z.object({
  layout: z.object({
    manager: z.enum(["launchd", "systemd"]),
    scope: z.enum(["system", "user"]),
    prefix: z.string(),
    definition: z.string(),
    configFile: z.string(),
    kubeconfig: z.string(),
    stateDir: z.string(),
    agentLog: optional,
    crashLog: optional,
    command: z.string(),
    account: optional,
    domain: z.string(),
  }),
  drainSeconds: z.int().min(0),
});

/** Undefined when nothing is installed there. Throws InstallUnreadable. */
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
