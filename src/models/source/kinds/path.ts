/** Paths within sources. */
import { InvalidSource } from "./kind.ts";

/** A decoded path that stays inside its folder. Throws InvalidSource. */
export function relativePath(path: string, form: string): string {
  const plain = decodePath(path).replace(/\/+$/, "");
  if (plain === "") throw new InvalidSource("it names no file", form);
  if (plain.split("/").some((part) => part === "" || part === "." || part === "..") || plain.includes("\0"))
    throw new InvalidSource("the path in it holds an empty part, '.' or '..'", form);
  return plain;
}

/** Throws InvalidSource. */
export function decodePath(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    throw new InvalidSource(
      "a % in it is not followed by two hex digits",
      "write a plain percent sign as %25",
    );
  }
}

export function lastName(path: string): string | undefined {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return name === "" ? undefined : name;
}
