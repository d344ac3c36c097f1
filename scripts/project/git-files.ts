/** The files of a repository. */
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";

/** Sorted paths of the files that git knows or would add, by patterns of git. A file that was just deleted is left out. */
export function gitFiles(root: string, ...patterns: readonly string[]): readonly string[] {
  const args = [
    "ls-files",
    "-z",
    "--cached",
    "--others",
    "--exclude-standard",
    "--deduplicate",
    "--",
    ...patterns,
  ];
  const listed = execFileSync("git", args, { cwd: root, encoding: "utf8", maxBuffer: 1 << 26 });
  const names = listed.split("\0").filter((name) => name !== "" && existsSync(path.join(root, name)));
  return names.sort();
}
