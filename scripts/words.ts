/** `npm run words [-- PATH…]`: the words and characters that the list forbids, in the files that it holds. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { gitFiles } from "./project/git-files.ts";
import { root } from "./project/root.ts";
import { findWords } from "./words/find.ts";

interface PlacedFinding {
  readonly file: string;
  readonly line: number;
  readonly message: string;
}

const kinds = /\.(tsx?|mjs|sh|md|yaml|css)$|^biome\.json$/;

/** Generated files are held by their sources; the list itself names what it forbids. */
const leftOut = /^(docs\/reference\/|docs\/errors\.md$|charts\/crds\/|scripts\/words\/)/;

/** The files that the word list holds: everything that people write or read here, less what is generated from it. */
export function findInTree(root: string): PlacedFinding[] {
  return gitFiles(root)
    .filter((file) => kinds.test(file) && !leftOut.test(file))
    .flatMap((file) =>
      findWords(file, readFileSync(path.join(root, file), "utf8")).map((found) => ({ file, ...found })),
    );
}

const paths = process.argv.slice(2);
const asked = (file: string) => paths.length === 0 || paths.some((it) => file.startsWith(it));
const findings = findInTree(root).filter(({ file }) => asked(file));
for (const { file, line, message } of findings) console.log(`${file}:${line}: ${message}`);
console.log(`${findings.length} words to replace`);
process.exitCode = findings.length === 0 ? 0 : 1;
