/** `npm run words [-- PATH…]`: the words and characters that the list forbids, in the files that it holds. */
import { root } from "./project/root.ts";
import { findInTree } from "./words/tree.ts";

const paths = process.argv.slice(2);
const asked = (file: string) => paths.length === 0 || paths.some((it) => file.startsWith(it));
const findings = findInTree(root).filter(({ file }) => asked(file));
for (const { file, line, message } of findings) console.log(`${file}:${line}: ${message}`);
console.log(`${findings.length} words to replace`);
process.exitCode = findings.length === 0 ? 0 : 1;
