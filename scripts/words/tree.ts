/** The files that the word list holds: everything that people write or read here, less what is generated from it. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { findWords } from "./find.ts";

export interface PlacedFinding {
  readonly file: string;
  readonly line: number;
  readonly message: string;
}

const kinds = /\.(ts|mjs|sh|md|yaml)$|^biome\.json$/;

/** Generated files are held by their sources; the list itself names what it forbids. */
const leftOut = /^(docs\/reference\/|docs\/errors\.md$|charts\/crds\/|scripts\/words\/)/;

export function findInTree(root: string): PlacedFinding[] {
  const listed = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
    cwd: root,
    encoding: "utf8",
    maxBuffer: 32 * 1024 * 1024,
  });
  return listed
    .split("\0")
    .filter((file) => kinds.test(file) && !leftOut.test(file))
    .flatMap((file) =>
      findWords(file, contentOf(path.join(root, file))).map((found) => ({ file, ...found })),
    );
}

/** A file that git still lists and that was just deleted is empty. */
function contentOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return "";
    throw error;
  }
}
