/** The images of a node in tests, as tars for `ctr images import`: ours with the bundle of this checkout, and stand-ins for engines. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { bundleInto } from "../bundle/bundle.ts";
import { root } from "../project/root.ts";
import { bundleIsFresh } from "../setup/bundle.mjs";
import { cacheKey, imagesCache, removeOld } from "./cache.ts";
import { DEBIAN_ARCHITECTURES, type DebianArchitecture } from "./debian-lock.ts";
import { type ImageLayoutInput, packImage, writeTar } from "./layout.ts";
import { baseLayers, ourImage } from "./ours.ts";
import { LLAMACPP_REFERENCES, llamacppImage } from "./stand-ins.ts";

const { version } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8")) as { version: string };

/** The chart's value image.repository in tests, and the one of examples/install. */
export const OUR_REPOSITORY = "registry.example.com/metalbridge";
/** As the chart names it, and as every node has it. */
export const OUR_IMAGE = `${OUR_REPOSITORY}:${version}`;

export interface NodeImage {
  readonly reference: string;
  /** The same path for the same bytes. A file may hold other names of the image too: those of all llama.cpp builds. */
  readonly file: string;
}

const OWN: Readonly<Record<string, DebianArchitecture>> = { x64: "amd64", arm64: "arm64" };
const DATE = "2000-01-01T00:00:00Z";

/** Milliseconds where the cache has all but our bundle. Needs apt (Debian, Ubuntu) the first time. */
export async function nodeImages(): Promise<readonly NodeImage[]> {
  const architecture = OWN[process.arch];
  if (architecture === undefined) throw new Error(`there are no images for ${process.arch}`);
  return [await ourTar(architecture), await llamacppTar(architecture)];
}

async function ourTar(architecture: DebianArchitecture): Promise<NodeImage> {
  const temporary = bundleIsFresh(root) ? undefined : mkdtempSync(path.join(tmpdir(), "mb-bundle-"));
  try {
    if (temporary !== undefined) await bundleInto(temporary);
    const bundle = temporary ?? path.join(root, "dist");
    const image = await ourImage({ architecture, bundle, compression: "none", labels: {} });
    return await tarOf("metalbridge", [OUR_IMAGE], image);
  } finally {
    if (temporary !== undefined) rmSync(temporary, { recursive: true, force: true });
  }
}

async function llamacppTar(architecture: DebianArchitecture): Promise<NodeImage> {
  return tarOf("llamacpp", LLAMACPP_REFERENCES, await llamacppImage(architecture));
}

async function tarOf(
  name: string,
  references: readonly string[],
  image: ImageLayoutInput["platforms"][number],
): Promise<NodeImage> {
  const layout = packImage({ references, created: DATE, platforms: [image] });
  const folder = imagesCache("tars");
  const file = path.join(folder, `${name}-${cacheKey(references, layout.digest)}.tar`);
  if (!existsSync(file)) {
    mkdirSync(folder, { recursive: true });
    removeOld(folder, `${name}-`);
    const temporary = `${file}.${process.pid}`;
    await writeTar(layout, temporary);
    renameSync(temporary, file);
  }
  return { reference: references[0] ?? "", file };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  // Tests look into the image of the other architecture too.
  for (const architecture of DEBIAN_ARCHITECTURES) await baseLayers(architecture, "none");
  for (const { reference, file } of await nodeImages()) console.log(`${reference} ${file}`);
}
