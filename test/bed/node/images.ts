/** The images of every node, imported once: a node starts from links to what an earlier containerd has unpacked. */
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
import { setTimeout as pause } from "node:timers/promises";
import { readPartsConfig } from "../../../local/control-plane/config.ts";
import { fileEntry } from "../../../scripts/images/entries.ts";
import { cachedLayer } from "../../../scripts/images/layer.ts";
import { packImage, writeTar } from "../../../scripts/images/layout.ts";
import { hash } from "../../../src/hash.ts";
import { ctr, PAUSE_IMAGE, rootIn, startContainerd } from "./containerd.ts";
import { startMachine } from "./machine.ts";
import type { NodeParts } from "./parts.ts";

export interface NodeImage {
  readonly reference: string;
  /** An OCI layout as a tar. */
  readonly file: string;
}

const KEPT_MS = 2 * 24 * 3_600_000;
const LIMIT_MS = 30_000;

/** Puts the images, and that of pause, where a containerd in the folder looks for them. */
export async function provideImages(
  parts: NodeParts,
  images: readonly NodeImage[],
  folder: string,
): Promise<void> {
  const facts = images.map(({ reference, file }) => [reference, file, statSync(file).mtimeMs]);
  const key = hash(JSON.stringify([parts, facts]), 16);
  const template = path.join(readPartsConfig().cacheDir, "node-images", key);
  if (!existsSync(template)) await makeTemplate(parts, images, template);
  const now = new Date();
  utimesSync(template, now, now);
  link(template, rootIn(folder));
}

async function makeTemplate(parts: NodeParts, images: readonly NodeImage[], template: string): Promise<void> {
  mkdirSync(path.dirname(template), { recursive: true });
  removeOld(path.dirname(template));
  const folder = mkdtempSync(`${template}-`);
  const machine = await startMachine(["unshare", "--net", "--"], folder);
  try {
    await startContainerd(machine, { folder, parts });
    await ctr(parts, folder, "images", "import", await packPause(parts, folder));
    for (const { file } of images) await ctr(parts, folder, "images", "import", file);
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

/** Those that no run has used for days. */
function removeOld(folder: string): void {
  for (const name of readdirSync(folder)) {
    const old = path.join(folder, name);
    if (statSync(old).mtimeMs < Date.now() - KEPT_MS) rmSync(old, { recursive: true, force: true });
  }
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
  for (const until = performance.now() + LIMIT_MS; ; await pause(50)) {
    const lines = (await ctr(parts, folder, "images", "list")).split("\n");
    const isKnown = (reference: string) =>
      lines.some((line) => line.startsWith(`${reference} `) && line.includes("cri-containerd.image=managed"));
    const missing = references.filter((reference) => !isKnown(reference));
    if (missing.length === 0) return;
    if (performance.now() > until) throw new Error(`containerd does not know ${missing.join(", ")}`);
  }
}

/** Blobs and snapshots never change, databases do. */
function link(from: string, to: string): void {
  mkdirSync(to, { recursive: true });
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [path.join(from, entry.name), path.join(to, entry.name)];
    if (["snapshots", "sha256"].includes(path.basename(from))) symlinkSync(source, target);
    else if (entry.isDirectory()) link(source, target);
    else copyFileSync(source, target);
  }
}
