/** Pages and manifests that show a version, or where a release is: both follow package.json. */
import { readdirSync, readFileSync } from "node:fs";
import { type Project, readProject } from "../project/project.ts";
import { root } from "../project/root.ts";

const VERSION = String.raw`\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]*[0-9A-Za-z])?`;
const PLATFORM = "(?:darwin-arm64|linux-x64|linux-arm64)";

function versionedPaths(): readonly string[] {
  const pages = readdirSync(`${root}/docs`).filter((name) => name.endsWith(".md"));
  return [
    ".github/ISSUE_TEMPLATE/config.yml",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "charts/README.md",
    "charts/metalbridge/Chart.yaml",
    "examples/mac-fleet/inventory.yaml",
    ...pages.map((name) => `docs/${name}`),
  ].sort();
}

/** The text with the version and the owner of package.json. */
export function followProject(text: string, { version, owner, slug }: Project): string {
  return text
    .replaceAll(
      new RegExp(`(metalbridge-)${VERSION}(-${PLATFORM}|\\.pkg|\\.spdx|\\.provenance)`, "g"),
      `$1${version}$2`,
    )
    .replaceAll(new RegExp(`(metalbridge:)${VERSION}`, "g"), `$1${version}`)
    .replaceAll(new RegExp(`(charts/metalbridge --version )${VERSION}`, "g"), `$1${version}`)
    .replaceAll(
      new RegExp(
        `((?:metalbridge/releases/download/|refs/tags/|--branch |gh release edit )v)${VERSION}`,
        "g",
      ),
      `$1${version}`,
    )
    .replaceAll(
      new RegExp(`^((?:version|appVersion|\\s*metalbridge_version): )${VERSION}$`, "gm"),
      `$1${version}`,
    )
    .replaceAll(/(ghcr\.io\/)[\w.-]+(\/(?:charts\/)?metalbridge)/g, `$1${owner.toLowerCase()}$2`)
    .replaceAll(/(brew (?:install|tap) )[\w.-]+(\/(?:tap|metalbridge))/g, `$1${owner}$2`)
    .replaceAll(/(--repo )[\w.-]+\/metalbridge\b/g, `$1${slug}`)
    .replaceAll(/(github\.com\/)[\w.-]+\/metalbridge\b/g, `$1${slug}`);
}

/** Renews every such file: what another part generates, or what is on disk. */
export function renewVersions(files: Map<string, string>): void {
  const project = readProject(root);
  for (const path of versionedPaths()) {
    const text = files.get(path) ?? readFileSync(`${root}/${path}`, "utf8");
    const followed = followProject(text, project);
    // What is as it should be needs no test of its own.
    if (followed !== text) files.set(path, followed);
  }
}
