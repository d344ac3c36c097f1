/** The images of every node, imported once: a node starts from links to what an earlier containerd has unpacked. */
import { execFileSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
} from "node:fs";
import path from "node:path";
import { readPartsConfig } from "../../../local/control-plane/config.ts";
import { fileEntry } from "../../../scripts/images/entries.ts";
import type { NodeImage } from "../../../scripts/images/for-tests.ts";
import { cachedLayer } from "../../../scripts/images/layer.ts";
import { packImage, writeTar } from "../../../scripts/images/layout.ts";
import { hash } from "../../../src/util/hash.ts";
import { waitForLock } from "../../../src/util/process-lock.ts";
import { run } from "../run.ts";
import { until } from "../until.ts";
import { ctr, PAUSE_IMAGE, rootIn, startContainerd } from "./containerd.ts";
import { startMachine } from "./machine.ts";
import type { NodeParts } from "./parts.ts";

const KEPT_MS = 6 * 3_600_000;

/** A folder with these images and that of pause, for `copyImages`. */
export async function prepareImages(parts: NodeParts, images: readonly NodeImage[]): Promise<string> {
  const name = [parts, images].map((value) => hash(JSON.stringify(value)));
  const template = path.join(readPartsConfig().cacheDir, "node-images", name.join("-"));
  const earlier = await reserve(template);
  if (earlier !== template) await makeTemplate(parts, images, template, earlier);
  return template;
}

/** Marks the template as used, or else the newest similar one, and removes others: no other run removes it while it is copied. */
async function reserve(template: string): Promise<string | undefined> {
  const folder = path.dirname(template);
  mkdirSync(folder, { recursive: true });
  const release = await waitForLock(folder);
  if (release === undefined) throw new Error(`another process keeps ${folder} locked`);
  try {
    const prefix = path.basename(template).split("-")[0] ?? "";
    const found = existsSync(template) ? template : newestOf(folder, prefix);
    const now = new Date();
    if (found !== undefined) utimesSync(found, now, now);
    removeOld(folder);
    return found;
  } finally {
    await release();
  }
}

/** Puts them where a containerd in the folder looks for them. */
export function copyImages(template: string, folder: string): void {
  copyRoot(template, rootIn(folder), symlinkSync);
}

async function makeTemplate(
  parts: NodeParts,
  images: readonly NodeImage[],
  template: string,
  earlier: string | undefined,
): Promise<void> {
  const folder = mkdtempSync(path.join(path.dirname(template), ".new-"));
  // Most layers are those of an earlier one, which may be removed before this one.
  if (earlier !== undefined)
    copyRoot(earlier, rootIn(folder), (source, target) => execFileSync("cp", ["-al", source, target]));
  const machine = await startMachine(["unshare", "--net", "--"], folder);
  try {
    await startContainerd(machine, { folder, parts });
    await ctr(parts, folder, "images", "import", await packPause(parts, folder));
    for (const { file } of images) await importMissing(parts, folder, file);
    await untilKnown(parts, folder, [PAUSE_IMAGE, ...images.map(({ reference }) => reference)]);
    await machine.kill();
    renameSync(rootIn(folder), template);
  } catch (error) {
    // Another worker was faster.
    if (!existsSync(template)) throw error;
  } finally {
    await machine.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** An import writes every blob of the file again, also those that containerd has. */
async function importMissing(parts: NodeParts, folder: string, file: string): Promise<void> {
  const known = new Set(
    readdirSync(path.join(rootIn(folder), "io.containerd.content.v1.content/blobs/sha256")),
  );
  const names = (await run("tar", ["-tf", file])).split("\n");
  const surplus = names.filter((name) => known.has(path.basename(name)));
  const missing = path.join(folder, "missing.tar");
  const script = 'from=$1; to=$2; shift 2; tar --delete -f - "$@" < "$from" > "$to"';
  await run("sh", ["-c", script, "sh", file, missing, ...surplus]);
  await ctr(parts, folder, "images", "import", surplus.length === 0 ? file : missing);
}

/** Those that no run has used for a while. */
function removeOld(folder: string): void {
  for (const name of readdirSync(folder)) {
    const old = path.join(folder, name);
    const { mtimeMs = Date.now() } = statSync(old, { throwIfNoEntry: false }) ?? {};
    if (mtimeMs < Date.now() - KEPT_MS) rmSync(old, { recursive: true, force: true });
  }
}

function newestOf(folder: string, prefix: string): string | undefined {
  const names = readdirSync(folder).filter((name) => name.startsWith(prefix));
  const found = names.map((name) => path.join(folder, name));
  const age = (file: string) => statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return found.sort((one, other) => age(other) - age(one))[0];
}

async function packPause(parts: NodeParts, folder: string): Promise<string> {
  const entries = () => [fileEntry(path.join(parts.folder, "pause"), "pause")];
  const layer = await cachedLayer({ compression: "none", folder: path.join(folder, "pause") }, entries);
  const config = { User: "65535:65535", Env: [], Entrypoint: ["/pause"], WorkingDir: "/" };
  const architecture = process.arch === "arm64" ? "arm64" : "amd64";
  const created = "2000-01-01T00:00:00Z";
  const platforms = [{ architecture, layers: [layer], config }] as const;
  const file = path.join(folder, "pause.tar");
  await writeTar(packImage({ references: [PAUSE_IMAGE], created, platforms }), file);
  return file;
}

/** The part of containerd that serves kubelet takes notice of an import a moment later. */
async function untilKnown(parts: NodeParts, folder: string, references: readonly string[]): Promise<void> {
  await until(async () => {
    const lines = (await ctr(parts, folder, "images", "list")).split("\n");
    const isKnown = (reference: string) =>
      lines.some((line) => line.startsWith(`${reference} `) && line.includes("cri-containerd.image=managed"));
    const missing = references.filter((reference) => !isKnown(reference));
    if (missing.length > 0) throw new Error(`containerd does not know ${missing.join(", ")}`);
  });
}

/** Blobs and snapshots never change, so they are shared; databases do. */
function copyRoot(from: string, to: string, share: (source: string, target: string) => void): void {
  mkdirSync(to, { recursive: true });
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [path.join(from, entry.name), path.join(to, entry.name)];
    if (["snapshots", "sha256"].includes(path.basename(from))) share(source, target);
    else if (entry.isDirectory()) copyRoot(source, target, share);
    else copyFileSync(source, target);
  }
}
