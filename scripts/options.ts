/**
 * `npm run options [-- FOLDER | all]`: removes an option of the controller from a copy of its sources, its folder and its line in the
 * registry, and checks the types of the rest. Without a name, the option is chosen at random.
 */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { root } from "./project/root.ts";

const FOLDER = "controller/options";
const REGISTRY = `${FOLDER}/registry.ts`;
const registry = readFileSync(path.join(root, REGISTRY), "utf8");
const imported = registry.matchAll(/^import \{ (\w+) \} from "\.\/([^/"]+)\/[^"]+";$/gm);
/** The names in the registry, by folder. */
const options = new Map(Array.from(imported, ([, name, folder = ""]) => [folder, name]));
const folders = [...options.keys()];
const random = folders[Math.floor(Math.random() * folders.length)] ?? "";
const [asked = random] = process.argv.slice(2);

for (const folder of asked === "all" ? folders : [asked]) {
  const errors = errorsWithout(folder);
  console.log(`without ${FOLDER}/${folder}: ${errors === "" ? "the types are right" : `\n${errors}`}`);
  if (errors !== "") process.exitCode = 1;
}

function errorsWithout(folder: string): string {
  const copy = mkdtempSync(path.join(tmpdir(), "metalbridge-without-option-"));
  const isLeft = (file: string) =>
    !/\.test\.ts$|\/(testing|fixtures|golden[^/]*)$/.test(file) && file !== path.join(root, FOLDER, folder);
  const isKept = (line: string) =>
    !line.includes(` "./${folder}/`) && line.trim() !== `${options.get(folder)},`;
  try {
    for (const part of ["src", "fitness", "controller", "package.json", "tsconfig.json"])
      cpSync(path.join(root, part), path.join(copy, part), { recursive: true, filter: isLeft });
    writeFileSync(path.join(copy, REGISTRY), registry.split("\n").filter(isKept).join("\n"));
    const config = {
      extends: "./tsconfig.json",
      compilerOptions: { skipLibCheck: true },
      include: ["controller"],
    };
    writeFileSync(path.join(copy, "tsconfig.controller.json"), JSON.stringify(config));
    symlinkSync(path.join(root, "node_modules"), path.join(copy, "node_modules"));
    const { status, stdout, stderr } = spawnSync("tsc", ["-p", "tsconfig.controller.json"], {
      cwd: copy,
      encoding: "utf8",
    });
    return status === 0 ? "" : `${stdout}${stderr}`;
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}
