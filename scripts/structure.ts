/** `npm run structure [-- --why]`: holds the code to its layers, without circles. `--why` lists the imports of each circle of folders. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { findStructure, importsInCircle } from "./structure/find.ts";

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const listed = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.ts"], {
  cwd: root,
  encoding: "utf8",
  maxBuffer: 32 * 1024 * 1024,
});
const sources = listed
  .split("\0")
  .filter((file) => file !== "" && existsSync(path.join(root, file)))
  .map((file) => ({ file, text: readFileSync(path.join(root, file), "utf8") }));
const findings = findStructure(sources);
for (const finding of findings) {
  console.log(finding);
  if (process.argv.includes("--why"))
    for (const line of importsInCircle(finding, sources)) console.log(`    ${line}`);
}
console.log(`${findings.length} findings`);
process.exitCode = findings.length === 0 ? 0 : 1;
