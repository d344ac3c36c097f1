/** Finds the llama-server that an earlier setup put into the cache. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { isExecutable } from "../command.mjs";

/** The newest by name; folders that are still being filled start with a dot. */
export function cachedLlamaServer(cache) {
  let names;
  try {
    names = readdirSync(cache);
  } catch {
    return undefined;
  }
  return names
    .filter((name) => !name.startsWith("."))
    .sort((one, other) => other.localeCompare(one, "en", { numeric: true }))
    .map((name) => join(cache, name, "bin", "llama-server"))
    .find(isExecutable);
}
