/**
 * `npm run words [-- PATH…]`: words that a reader would not search for, with the field's word to write instead.
 * Without a path, in the whole tree.
 */
import path from "node:path";
import { fileURLToPath } from "node:url";
import { findInTree } from "./words/tree.ts";

const paths = process.argv.slice(2);
const asked = (file: string) => paths.length === 0 || paths.some((it) => file.startsWith(it));
const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const findings = findInTree(root).filter(({ file }) => asked(file));
for (const { file, line, message } of findings) console.log(`${file}:${line}: ${message}`);
console.log(`${findings.length} words to replace`);
process.exitCode = findings.length === 0 ? 0 : 1;
