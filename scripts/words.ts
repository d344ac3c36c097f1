/**
 * `npm run words [-- PATH…]`: words that a reader would not search for, with the field's word to write instead.
 * Without a path only findings in files that are held fail; with paths, all findings there.
 */
import path from "node:path";
import { fileURLToPath } from "node:url";
import { findInTree, isHeld } from "./words/tree.ts";

const paths = process.argv.slice(2);
const asked = (file: string) => (paths.length === 0 ? isHeld(file) : paths.some((it) => file.startsWith(it)));
const all = findInTree(path.dirname(path.dirname(fileURLToPath(import.meta.url))));
const findings = all.filter(({ file }) => asked(file));
for (const { file, line, message } of findings) console.log(`${file}:${line}: ${message}`);
console.log(`${findings.length} words to replace, ${all.length - findings.length} elsewhere`);
process.exitCode = findings.length === 0 ? 0 : 1;
