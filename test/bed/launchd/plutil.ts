/** plutil: `-lint FILE`, and `-convert json -o - FILE`. */
import { readFileSync } from "node:fs";
import { parse } from "plist";
import type { Answer, Call } from "./replayed-commands.ts";

export function plutil({ args }: Call): Answer {
  const file = args.at(-1) ?? "";
  try {
    const value: unknown = parse(readFileSync(file, "utf8"));
    if (args[0] === "-lint") return { out: `${file}: OK\n` };
    // JSON has neither dates nor data.
    if (hasNoJson(value))
      return { code: 1, err: `${file}: invalid object in plist for destination format\n` };
    return { out: JSON.stringify(value) };
  } catch (error) {
    const what = error instanceof Error ? error.message.split("\n")[0] : String(error);
    return { code: 1, [args[0] === "-lint" ? "out" : "err"]: `${file}: ${what}\n` };
  }
}

function hasNoJson(value: unknown): boolean {
  if (value instanceof Date || value instanceof Uint8Array) return true;
  return typeof value === "object" && value !== null && Object.values(value).some(hasNoJson);
}
