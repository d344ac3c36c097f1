/** Files on the host's own disk. */
import { InvalidSource, type SourceKind } from "./kind.ts";
import { decodePath, lastName } from "./path.ts";

export interface FileSource {
  readonly kind: "file";
  readonly path: string;
}

export const FILE = {
  schemes: ["file"],
  form: "file:///…, an absolute path",
  fullForm: "file:///… or an absolute path on the host",
  readBy: "host",
  parse: (rest) => parsePath(decodePath(rest.replace(/^localhost(?=\/)/, ""))),
  fileName: ({ path }: FileSource) => lastName(path),
} satisfies SourceKind<FileSource>;

/** An absolute path. Throws InvalidSource. */
export function parsePath(path: string): FileSource {
  if (!path.startsWith("/"))
    throw new InvalidSource("the path is not absolute", "file:///path/on/the/host (three slashes)");
  if (path.split("/").includes("..")) throw new InvalidSource("the path holds '..'", "the path without it");
  if (path.includes("\0")) throw new InvalidSource("the path holds a zero byte", "the path without it");
  if (/^\/+$/.test(path)) throw new InvalidSource("it names no file", "file:///path/on/the/host/model.gguf");
  return { kind: "file", path: path.replace(/\/{2,}/g, "/").replace(/(?<=.)\/$/, "") };
}
