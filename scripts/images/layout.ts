/** An OCI image layout (https://github.com/opencontainers/image-spec): as a folder, and as one tar for `ctr images import`. */
import { createReadStream, createWriteStream } from "node:fs";
import { copyFile, mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { pack } from "tar-stream";
import { type BuiltLayer, contentDigestOf, ENTRY_DATE } from "./layer.ts";

const MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json";
export const INDEX_TYPE = "application/vnd.oci.image.index.v1+json";
const CONFIG_TYPE = "application/vnd.oci.image.config.v1+json";

export interface ImageDescriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  readonly annotations?: Readonly<Record<string, string>> | undefined;
  readonly platform?: { readonly os: string; readonly architecture: string };
}

/** The bytes, or the file that holds them. */
type Content = Buffer | string;

export interface ImageLayout {
  /** Digest of the manifest or index that the references name. */
  readonly digest: string;
  readonly index: { readonly manifests: readonly ImageDescriptor[] };
  readonly blobs: ReadonlyMap<string, { readonly size: number; readonly content: Content }>;
}

/** As the specification names the fields of `config`. */
export interface ImageConfig {
  readonly User: string;
  readonly Env: readonly string[];
  readonly Entrypoint: readonly string[];
  readonly Cmd?: readonly string[];
  readonly WorkingDir: string;
  readonly ExposedPorts?: Readonly<Record<string, object>>;
  readonly Labels?: Readonly<Record<string, string>>;
}

export interface PlatformImage {
  readonly architecture: "amd64" | "arm64";
  readonly layers: readonly BuiltLayer[];
  readonly config: ImageConfig;
}

export interface ImageLayoutInput {
  /** Full references: what containerd calls the image after an import. */
  readonly references: readonly string[];
  /** As an ISO date. */
  readonly created: string;
  /** One, or several: then the references lead to an index. */
  readonly platforms: readonly PlatformImage[];
  readonly annotations?: Readonly<Record<string, string>>;
}

export function packImage({ references, created, platforms, annotations }: ImageLayoutInput): ImageLayout {
  const blobs: Blobs = new Map();
  const manifests = platforms.map((platform) => addPlatform(blobs, platform, created, annotations));
  const [only] = manifests;
  const top =
    manifests.length === 1 && only !== undefined
      ? only
      : addJson(blobs, INDEX_TYPE, {
          schemaVersion: 2,
          mediaType: INDEX_TYPE,
          manifests,
          annotations,
        });
  return layoutOf(blobs, top, references);
}

/** One manifest of any artifact, such as a chart. `references` may be tags alone. */
export function packArtifact(
  config: { readonly mediaType: string; readonly content: Buffer },
  layers: readonly { readonly mediaType: string; readonly content: Buffer }[],
  options: {
    readonly references: readonly string[];
    readonly annotations?: Readonly<Record<string, string>>;
  },
): ImageLayout {
  const blobs: Blobs = new Map();
  const [first, ...rest] = [config, ...layers].map(({ mediaType, content }) =>
    addBlob(blobs, mediaType, content),
  );
  const { references, annotations } = options;
  const manifest = { schemaVersion: 2, mediaType: MANIFEST_TYPE, config: first, layers: rest, annotations };
  return layoutOf(blobs, addJson(blobs, MANIFEST_TYPE, manifest), references);
}

export async function writeFolder(layout: ImageLayout, folder: string): Promise<void> {
  await mkdir(path.join(folder, "blobs", "sha256"), { recursive: true });
  for (const { name, content } of filesOf(layout)) {
    const target = path.join(folder, name);
    if (typeof content === "string") await copyFile(content, target);
    else await writeFile(target, content);
  }
}

export async function writeTar(layout: ImageLayout, file: string): Promise<void> {
  const archive = pack();
  const written = pipeline(archive, createWriteStream(file));
  const common = { mtime: ENTRY_DATE, uid: 0, gid: 0 };
  const folders = ["blobs/", "blobs/sha256/"];
  for (const name of folders) archive.entry({ ...common, name, type: "directory", mode: 0o755 });
  for (const { name, size, content } of filesOf(layout)) {
    const header = { ...common, name, size, mode: 0o644 };
    if (typeof content === "string") await pipeline(createReadStream(content), archive.entry(header));
    else archive.entry(header, content);
  }
  archive.finalize();
  await written;
}

type Blobs = Map<string, { readonly size: number; readonly content: Content }>;

function addPlatform(
  blobs: Blobs,
  { architecture, layers, config }: PlatformImage,
  created: string,
  annotations: ImageLayoutInput["annotations"],
): ImageDescriptor {
  for (const { digest, size, file } of layers) blobs.set(digest, { size, content: file });
  const platform = { os: "linux", architecture };
  const image = addJson(blobs, CONFIG_TYPE, {
    created,
    architecture,
    os: "linux",
    config,
    rootfs: { type: "layers", diff_ids: layers.map(({ diffId }) => diffId) },
    history: layers.map(() => ({ created, created_by: "scripts/images" })),
  });
  const manifest = addJson(blobs, MANIFEST_TYPE, {
    schemaVersion: 2,
    mediaType: MANIFEST_TYPE,
    config: image,
    layers: layers.map(({ mediaType, digest, size }) => ({ mediaType, digest, size })),
    annotations,
  });
  return { ...manifest, platform };
}

function addJson(blobs: Blobs, mediaType: string, value: object): ImageDescriptor {
  return addBlob(blobs, mediaType, Buffer.from(JSON.stringify(value)));
}

function addBlob(blobs: Blobs, mediaType: string, content: Buffer): ImageDescriptor {
  const digest = contentDigestOf(content);
  blobs.set(digest, { size: content.length, content });
  return { mediaType, digest, size: content.length };
}

function layoutOf(blobs: Blobs, top: ImageDescriptor, references: readonly string[]): ImageLayout {
  const manifests = references.map((reference) => ({ ...top, annotations: namesOf(reference) }));
  return { digest: top.digest, index: { manifests }, blobs };
}

/** containerd reads the first, other tools the second, which is a tag. */
function namesOf(reference: string): Record<string, string> {
  const tag = reference.slice(reference.lastIndexOf(":") + 1);
  return { "io.containerd.image.name": reference, "org.opencontainers.image.ref.name": tag };
}

function filesOf({ index, blobs }: ImageLayout) {
  const text = (name: string, value: object) => {
    const content = Buffer.from(`${JSON.stringify(value)}\n`);
    return { name, size: content.length, content };
  };
  const digests = [...blobs].sort(([one], [other]) => (one < other ? -1 : 1));
  return [
    text("oci-layout", { imageLayoutVersion: "1.0.0" }),
    text("index.json", { schemaVersion: 2, mediaType: INDEX_TYPE, ...index }),
    ...digests.map(([digest, blob]) => ({ name: `blobs/${digest.replace(":", "/")}`, ...blob })),
  ];
}
