/** Names of model files: what is safe to put on disk, on every system. */
import { MetalbridgeError } from "../../api/errors.ts";

/** The name if it stays inside its folder; throws FileNameNotAllowed. */
export function checkFileName(name: string): string {
  const segments = name.split("/");
  const isSafe =
    name.length > 0 &&
    name.length <= 1024 &&
    segments.length <= 16 &&
    segments.every(
      (segment) => segment !== "" && segment !== "." && segment !== ".." && byteLength(segment) <= 255,
    ) &&
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
    !/[\u0000-\u001f\u007f\\]/.test(name);
  if (!isSafe)
    throw new MetalbridgeError("FileNameNotAllowed", `${JSON.stringify(name)} is not a valid file name`);
  return name;
}

function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** Throws FileNameNotAllowed for two names that are one file on the case-insensitive file system of a Mac. */
export function checkDistinct(names: readonly string[]): void {
  const seen = new Map<string, string>();
  for (const name of names) {
    const folded = name.normalize("NFC").toLowerCase();
    const other = seen.get(folded);
    if (other !== undefined)
      throw new MetalbridgeError(
        "FileNameNotAllowed",
        `${other} and ${name} differ in case only, and macOS keeps one file under both names`,
        {
          summary: "name the files to fetch in spec.files",
        },
      );
    seen.set(folded, name);
  }
}
