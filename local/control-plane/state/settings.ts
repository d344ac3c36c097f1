/** Settings of a control plane that must not change at a restart. */
import { existsSync, readFileSync } from "node:fs";
import { z } from "zod";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { writeFileAtomicSync } from "../../../src/util/atomic-file.ts";

const settingsSchema = z.strictObject({ version: z.literal(1), port: z.int().min(1).max(65_535) });

export type Settings = z.infer<typeof settingsSchema>;

/** Undefined before the first start. */
export function readSettings(file: string): Settings | undefined {
  if (!existsSync(file)) return undefined;
  try {
    return settingsSchema.parse(JSON.parse(readFileSync(file, "utf8")));
  } catch (cause) {
    const remedy = {
      summary: "remove it: the control plane then chooses another port",
      command: `rm ${file}`,
    };
    throw new MetalbridgeError("StateFileInvalid", `${file} is invalid`, remedy, { cause });
  }
}

export function writeSettings(file: string, settings: Settings): void {
  writeFileAtomicSync(file, `${JSON.stringify(settings)}\n`);
}
