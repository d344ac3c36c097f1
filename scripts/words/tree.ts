/** The files that the word list holds: everything that people write or read here, less what is generated from it. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { gitFiles } from "../project/git-files.ts";
import { findWords } from "./find.ts";

export interface PlacedFinding {
  readonly file: string;
  readonly line: number;
  readonly message: string;
}

const kinds = /\.(tsx?|mjs|sh|py|go|html|md|ya?ml|css|tpl|rb|service)$|^(biome|knip)\.json$|^\.ci\//;

/** Generated files are held by their sources; the list itself names what it forbids. */
const leftOut = /^(docs\/reference\/|docs\/errors\.md$|charts\/crds\/|scripts\/words\/)/;

export function findInTree(root: string): PlacedFinding[] {
  return gitFiles(root)
    .filter((file) => kinds.test(file) && !leftOut.test(file))
    .flatMap((file) =>
      findWords(file, readFileSync(path.join(root, file), "utf8")).map((found) => ({ file, ...found })),
    );
}
