/** Names of model files: what is safe to put on disk. */
import { MetalbridgeError } from "../../src/errors.ts";

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
