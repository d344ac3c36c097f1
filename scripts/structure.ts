/**
 * `npm run structure [-- --why]`: holds the code to its layers, without circles, and each room to its budget of lines and to small rings
 * of folders. `--why` lists the imports of each circle or ring of folders.
 */
import { readFileSync } from "node:fs";
import path from "node:path";
import { gitFiles } from "./project/git-files.ts";
import { root } from "./project/root.ts";
import { findHeavyRooms, findRings, findStructure, importsInCircle, weighRooms } from "./structure/find.ts";

const read = (...patterns: string[]) =>
  gitFiles(root, ...patterns).map((file) => ({ file, text: readFileSync(path.join(root, file), "utf8") }));
const sources = read("*.ts", "*.tsx");
const rooms = weighRooms([...sources, ...read("*.css", "*.mjs")]);
for (const { name, files, lines, budget, ring } of rooms)
  console.log(
    `${name.padEnd(11)}${String(files).padStart(4)} files ${String(lines).padStart(6)} of ${budget} lines, largest ring ${ring.length} folders`,
  );
const findings = [...findStructure(sources), ...findHeavyRooms(rooms), ...findRings(rooms)];
for (const finding of findings) {
  console.log(finding);
  if (process.argv.includes("--why"))
    for (const line of importsInCircle(finding, sources)) console.log(`    ${line}`);
}
console.log(`${findings.length} findings`);
process.exitCode = findings.length === 0 ? 0 : 1;
