/** `npm run structure [-- --why]`: holds the code to its layers, without circles. `--why` lists the imports of each circle of folders. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { gitFiles } from "./project/git-files.ts";
import { root } from "./project/root.ts";
import { findStructure, importsInCircle } from "./structure/find.ts";

const sources = [...gitFiles(root, "*.ts"), ...gitFiles(root, "*.tsx")].map((file) => ({
  file,
  text: readFileSync(path.join(root, file), "utf8"),
}));
const findings = findStructure(sources);
for (const finding of findings) {
  console.log(finding);
  if (process.argv.includes("--why"))
    for (const line of importsInCircle(finding, sources)) console.log(`    ${line}`);
}
console.log(`${findings.length} findings`);
process.exitCode = findings.length === 0 ? 0 : 1;
