/** Names of model files: what is safe to put on disk, and which files belong together. */
import { MetalbridgeError } from "../../src/errors.ts";

const SHARD = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/;
const MOST_SHARDS = 1000;

/** The name if it stays inside its folder on every system; throws FileNameNotAllowed. */
export function checkFileName(name: string): string {
  const segments = name.split("/");
  const isSafe =
    name.length > 0 &&
    name.length <= 1024 &&
    segments.length <= 16 &&
    segments.every(
      (segment) => segment !== "" && segment !== "." && segment !== ".." && Buffer.byteLength(segment) <= 255,
    ) &&
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
    !/[\u0000-\u001f\u007f\\]/.test(name);
  if (!isSafe)
    throw new MetalbridgeError("FileNameNotAllowed", `${JSON.stringify(name)} is no name for a model file`);
  return name;
}

/** All shards of a split GGUF in order, or the name alone. llama-server is given the first and finds the rest itself. */
export function shardsOf(name: string): readonly string[] {
  const match = SHARD.exec(name);
  const count = Number(match?.[3] ?? 0);
  if (match === null || count < 1) return [name];
  if (count > MOST_SHARDS) throw new MetalbridgeError("FileNameNotAllowed", `${name} claims ${count} shards`);
  return Array.from({ length: count }, (_, index) => {
    return `${match[1]}-${String(index + 1).padStart(5, "0")}-of-${match[3]}.gguf`;
  });
}
