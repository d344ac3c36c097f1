/** Everything that a release consists of: archives, sums, bill of materials, install script, Homebrew formula and krew manifest. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { sha256Of } from "../../launchd/release/manifest.ts";
import { packFolder } from "./archive.ts";
import { fillRelease } from "./folder.ts";
import type { PinnedNode } from "./node.ts";
import { renderSbom } from "./sbom.ts";

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.dirname(path.dirname(here));

export interface ReleaseOptions {
  readonly version: string;
  readonly platforms: readonly string[];
  /** What esbuild wrote. */
  readonly bundle: string;
  readonly out: string;
  /** Where the archives will be; "" when that is not known yet. */
  readonly baseUrl: string;
  readonly nodeFor: (platform: string) => PinnedNode;
}

/** SHA-256 by the archive's name. */
export async function buildRelease(options: ReleaseOptions): Promise<Readonly<Record<string, string>>> {
  const { version, platforms, bundle, out, baseUrl, nodeFor } = options;
  mkdirSync(out, { recursive: true });
  const sums: Record<string, string> = {};
  const nodes: Record<string, string> = {};
  for (const platform of platforms) {
    const name = `metalbridge-${version}-${platform}`;
    const folder = mkdtempSync(path.join(tmpdir(), "mb-release-"));
    try {
      const node = nodeFor(platform);
      nodes[platform] = node.version;
      fillRelease(folder, { version, platform, node, bundle });
      const file = path.join(out, `${name}.tar.gz`);
      await packFolder(folder, name, file);
      sums[`${name}.tar.gz`] = await sha256Of(file);
      writeFileSync(`${file}.sha256`, `${sums[`${name}.tar.gz`]}  ${name}.tar.gz\n`);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }
  const lines = Object.entries(sums).map(([name, sum]) => `${sum}  ${name}`);
  writeFileSync(path.join(out, "SHA256SUMS"), `${lines.join("\n")}\n`);
  const lock = JSON.parse(readFileSync(path.join(root, "package-lock.json"), "utf8"));
  writeFileSync(path.join(out, `metalbridge-${version}.cdx.json`), renderSbom({ version, lock, nodes }));
  const fill = (name: string) =>
    fillTemplate(readFileSync(path.join(here, name), "utf8"), { version, baseUrl, lines });
  writeFileSync(path.join(out, "install.sh"), fill("install.sh"), { mode: 0o755 });
  for (const name of ["metalbridge.rb", "krew.yaml"]) {
    // For package managers: they need the address, and all platforms.
    const text = fill(name);
    if (baseUrl !== "" && !text.includes("@SHA256")) writeFileSync(path.join(out, name), text);
  }
  return sums;
}

function fillTemplate(
  text: string,
  {
    version,
    baseUrl,
    lines,
  }: { readonly version: string; readonly baseUrl: string; readonly lines: readonly string[] },
): string {
  const filled = text
    .replaceAll("@VERSION@", version)
    .replaceAll("@BASE_URL@", baseUrl)
    .replaceAll("@SUMS@", lines.join("\n"));
  return filled.replaceAll(/@SHA256 ([\w-]+)@/g, (whole, platform: string) => {
    const line = lines.find((one) => one.endsWith(`-${platform}.tar.gz`));
    return line?.split(" ")[0] ?? whole;
  });
}
