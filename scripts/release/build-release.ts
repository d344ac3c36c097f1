/** Everything that a release consists of: archives, bill of materials, install script, manifests, provenance and sums. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { MANIFEST, sha256Of } from "../../launchd/release/manifest.ts";
import { bundleInto } from "../bundle/bundle.ts";
import { DEBIAN_ARCHITECTURES, readLock as readDebianLock } from "../images/debian-lock.ts";
import { gzipped, packTar } from "../images/layer.ts";
import { type PinnedNode, PLATFORMS } from "../project/node.ts";
import type { Project } from "../project/project.ts";
import { ReleaseError } from "../project/release-error.ts";
import { root } from "../project/root.ts";
import type { SourceCommit } from "../project/source-tree.ts";
import { sectionOf } from "./changelog.ts";
import { filesIn, fillRelease } from "./folder.ts";
import { renderProvenance } from "./statements/provenance.ts";
import { debianPart, renderSbom, type SbomPart } from "./statements/sbom.ts";

const here = path.dirname(fileURLToPath(import.meta.url));

export interface ReleaseOptions {
  readonly project: Project;
  readonly source: SourceCommit;
  readonly platforms: readonly string[];
  /** Must not exist. */
  readonly out: string;
  /** Where the files will be, without a slash at the end. */
  readonly baseUrl: string;
  readonly nodeFor: (platform: string) => PinnedNode;
  /** Writes what goes to a registry; returns each repository with the digest that it will have there. */
  readonly writeImages: (out: string, input: ImagesInput) => Promise<Readonly<Record<string, string>>>;
}

export interface ImagesInput {
  readonly project: Project;
  readonly source: SourceCommit;
  /** What esbuild wrote. */
  readonly bundle: string;
}

/** What is in the folder of a whole release; `chart` and `image` are layouts for a registry, the rest is for downloads. */
export function releaseFiles(version: string): readonly string[] {
  const archives = PLATFORMS.map((platform) => `metalbridge-${version}-${platform}.tar.gz`);
  const own = ["-image.tar", ".provenance.json", ".spdx.json", ".tgz"];
  return [
    "SHA256SUMS",
    "chart",
    "image",
    "install.sh",
    "krew.yaml",
    "metalbridge.rb",
    "release-notes.md",
    ...archives.flatMap((name) => [name, `${name}.sha256`]),
    ...own.map((ending) => `metalbridge-${version}${ending}`),
  ].sort();
}

/** Returns the SHA-256 of every file in `out`, which is there as a whole or not at all. */
export async function buildRelease(options: ReleaseOptions): Promise<Readonly<Record<string, string>>> {
  const { out, project, source, platforms, writeImages } = options;
  checkOptions(options);
  const fresh = `${out}.${process.pid}.new`;
  // In the root: source maps name sources relative to it.
  const bundle = path.join(root, `dist.${process.pid}.release`);
  mkdirSync(fresh, { recursive: true });
  try {
    await bundleInto(bundle).catch((cause) => {
      throw new ReleaseError("the sources cannot be bundled", "read what esbuild has printed above", {
        cause,
      });
    });
    const nodes = await writeArchives(fresh, bundle, options);
    // As for package managers: all platforms or none.
    const isWhole = PLATFORMS.every((one) => platforms.includes(one));
    const images = isWhole ? await writeImages(fresh, { project, source, bundle }) : {};
    const parts = isWhole ? [...nodes, ...debianParts()] : nodes;
    writeTexts(fresh, parts, options);
    const sums = await sumsIn(fresh);
    const written = writeProvenance(fresh, { ...sums, ...images }, parts, options);
    for (const name of written) sums[name] = await sha256Of(path.join(fresh, name));
    writeFileSync(path.join(fresh, "SHA256SUMS"), linesOf(sums));
    renameSync(fresh, out);
    return sums;
  } finally {
    for (const folder of [fresh, bundle]) rmSync(folder, { recursive: true, force: true });
  }
}

function checkOptions({ out, baseUrl }: ReleaseOptions): void {
  if (existsSync(out))
    throw new ReleaseError(`${out} exists`, `remove it (rm -r ${out}), or name another folder with --out`);
  if (baseUrl.endsWith("/"))
    throw new ReleaseError(
      `the base URL ${baseUrl} ends with a slash`,
      `leave the slash out: --base-url ${baseUrl.replace(/\/+$/, "")}`,
    );
  if (!/^(https|file):$/.test(URL.parse(baseUrl)?.protocol ?? ""))
    throw new ReleaseError(
      `the base URL ${JSON.stringify(baseUrl)} is not an https address`,
      "write where the files of the release will be, for example --base-url https://mirror.example.com/metalbridge",
    );
}

/** One for each platform, with its sum beside it, which `metalbridge upgrade` reads. Returns the Node in each. */
async function writeArchives(
  out: string,
  bundle: string,
  { project: { version }, source, platforms, nodeFor }: ReleaseOptions,
): Promise<readonly SbomPart[]> {
  const parts: SbomPart[] = [];
  for (const platform of platforms) {
    const name = `metalbridge-${version}-${platform}`;
    const folder = mkdtempSync(path.join(tmpdir(), "mb-release-"));
    try {
      const node = nodeFor(platform);
      parts.push({ ...node, name: "node", license: "MIT" });
      fillRelease(folder, { version, platform, node, bundle });
      const file = path.join(out, `${name}.tar.gz`);
      writeFileSync(file, gzipped(await packTar(entriesOf(folder, name), source.date)));
      writeFileSync(`${file}.sha256`, `${await sha256Of(file)}  ${name}.tar.gz\n`);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }
  return parts;
}

/** All files of the folder below `top`, its manifest first. */
function entriesOf(folder: string, top: string) {
  return [MANIFEST, ...filesIn(folder)].map((name) => {
    const from = path.join(folder, name);
    const mode = (statSync(from).mode & 0o111) === 0 ? 0o644 : 0o755;
    return { header: { name: `${top}/${name}`, mode }, content: readFileSync(from) };
  });
}

function writeTexts(
  out: string,
  parts: readonly SbomPart[],
  { project, source, baseUrl }: ReleaseOptions,
): void {
  const { version, url, downloads } = project;
  const sbom = renderSbom({ version, url, downloads, date: source.date, lock: readLock(), parts });
  writeFileSync(path.join(out, `metalbridge-${version}.spdx.json`), sbom);
  const changelog = readFileSync(path.join(root, "CHANGELOG.md"), "utf8");
  const notes = sectionOf(changelog, version) ?? sectionOf(changelog, "Unreleased") ?? "";
  writeFileSync(path.join(out, "release-notes.md"), `${notes}\n`);
  const sums = readdirSync(out)
    .filter((name) => name.endsWith(".tar.gz.sha256"))
    .sort()
    .map((name) => readFileSync(path.join(out, name), "utf8").trimEnd());
  const fill = (name: string) =>
    fillTemplate(readFileSync(path.join(here, name), "utf8"), { ...project, baseUrl, sums });
  writeFileSync(path.join(out, "install.sh"), fill("install.sh"), { mode: 0o755 });
  for (const name of ["metalbridge.rb", "krew.yaml"]) {
    // For package managers: all platforms or none.
    const text = fill(name);
    if (!text.includes("@SHA256")) writeFileSync(path.join(out, name), text);
  }
}

interface TemplateValues extends Project {
  readonly baseUrl: string;
  /** Lines of the archives. */
  readonly sums: readonly string[];
}

function fillTemplate(text: string, { version, url, baseUrl, sums }: TemplateValues): string {
  const filled = text
    .replaceAll("@VERSION@", version)
    .replaceAll("@URL@", url)
    .replaceAll("@BASE_URL@", baseUrl)
    .replaceAll("@SUMS@", sums.join("\n"));
  return filled.replaceAll(/@SHA256 ([\w-]+)@/g, (whole, platform: string) => {
    const line = sums.find((one) => one.endsWith(`-${platform}.tar.gz`));
    return line?.split(" ")[0] ?? whole;
  });
}

/** Returns the files it wrote: none where the files are not those of a commit. */
function writeProvenance(
  out: string,
  sums: Readonly<Record<string, string>>,
  parts: readonly SbomPart[],
  { project, source, platforms, baseUrl }: ReleaseOptions,
): readonly string[] {
  if (!source.clean) return [];
  const { commit, date } = source;
  const lock = readLock();
  const name = `metalbridge-${project.version}.provenance.json`;
  const text = renderProvenance({ project, commit, date, platforms, baseUrl, lock, parts, sums });
  writeFileSync(path.join(out, name), text);
  return [name];
}

/** The Debian packages of the image; those for every architecture are in both lists of the lock. */
function debianParts(): readonly SbomPart[] {
  const { packages } = readDebianLock();
  const parts = DEBIAN_ARCHITECTURES.flatMap((architecture) => packages[architecture].map(debianPart));
  return [...new Map(parts.map((part) => [part.purl, part])).values()];
}

function readLock() {
  return JSON.parse(readFileSync(path.join(root, "package-lock.json"), "utf8"));
}

/** SHA-256 of every file below the folder, by its path with slashes, sorted. */
async function sumsIn(folder: string): Promise<Record<string, string>> {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" });
  const files = names.filter((name) => statSync(path.join(folder, name)).isFile()).sort();
  const sums: Record<string, string> = {};
  for (const name of files) sums[name] = await sha256Of(path.join(folder, name));
  return sums;
}

function linesOf(sums: Readonly<Record<string, string>>): string {
  const names = Object.keys(sums).sort();
  return names.map((name) => `${sums[name]}  ${name}\n`).join("");
}
