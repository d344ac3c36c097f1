/** `npm run release:prepare -- X.Y.Z`: sets the version everywhere and closes the changelog's section; commits nothing. */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { checkVersion, readProject } from "../project/project.ts";
import { ReleaseError, readArguments, runCommand, UsageError } from "../project/release-error.ts";
import { root } from "../project/root.ts";
import { releaseSection } from "./changelog.ts";

const NEXT = `
Read the changes (git diff), then:
  git commit --all --message "release VERSION"
  npm run release -- --verify
  git push
  git tag --annotate vVERSION --message vVERSION && git push origin vVERSION   # once CI has passed`;

await runCommand(() => {
  const usage = "npm run release:prepare -- X.Y.Z";
  const [version = "", ...more] = readArguments({ allowPositionals: true }, usage).positionals;
  if (version === "" || more.length > 0) throw new UsageError("name one version", usage);
  checkVersion(version, "the command line");
  const before = readProject(root).version;
  if (order(version) < order(before))
    throw new ReleaseError(
      `${version} is older than ${before}, the version of package.json`,
      "choose a newer one; hosts refuse an older version",
    );
  const tags = execFileSync("git", ["tag", "--list", `v${version}`], { cwd: root, encoding: "utf8" });
  if (tags !== "")
    throw new ReleaseError(`the tag v${version} exists`, "choose the next version: a tag is never moved");
  const today = new Date().toISOString().slice(0, 10);
  const changelog = releaseSection(read("CHANGELOG.md"), version, today);

  write("CHANGELOG.md", changelog);
  const setVersion = (text: string) => text.replace(`"version": "${before}"`, `"version": "${version}"`);
  write("package.json", setVersion(read("package.json")));
  const [head = "", ...rest] = read("package-lock.json").split(/(?<="packages": \{)/);
  write("package-lock.json", [setVersion(head), ...rest.map(setVersion)].join(""));
  // Chart, manifests and pages follow package.json.
  execFileSync("npm", ["run", "--silent", "generate"], { cwd: root, stdio: "inherit" });
  console.log(NEXT.replaceAll("VERSION", version));
});

function read(name: string): string {
  return readFileSync(path.join(root, name), "utf8");
}

function write(name: string, text: string): void {
  writeFileSync(path.join(root, name), text);
}

/** Text that sorts like the versions, but for pre-releases of the same version among themselves. */
function order(version: string): string {
  const [core = "", pre] = version.split(/-(.*)/);
  const numbers = core.split(".").map((part) => part.padStart(8, "0"));
  return `${numbers.join(".")}${pre === undefined ? "~" : "-"}`;
}
