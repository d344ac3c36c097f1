/** The image of the controller, the density API and `metalbridge node`: Debian's C libraries, Node and the bundle; no shell, no package manager. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { pinnedNode } from "../project/node.ts";
import { root } from "../project/root.ts";
import { cacheKey, imagesCache, removeOld } from "./cache.ts";
import { type DebianArchitecture, fetchLocked, readLock } from "./debian-lock.ts";
import { stripped } from "./elf.ts";
import { entriesIn, fileEntry, type LayerEntry, textEntry } from "./entries.ts";
import { type BuiltLayer, type Compression, cachedLayer, contentDigestOf } from "./layer.ts";
import type { ImageConfig, PlatformImage } from "./layout.ts";
import { entriesOfPackages } from "./packages.ts";

/** The number that images without a shell use for their user. */
const USER = 65532;
const WORKDIR = "/opt/metalbridge";
/** Files of the repository; `dist` comes from a bundle. */
const FILES = ["LICENSE", "catalog", "cli/metalbridge.mjs", "package.json"];

const NODE: Readonly<Record<DebianArchitecture, string>> = { amd64: "linux-x64", arm64: "linux-arm64" };

/** Raised by hand when the entries of a layer change though its packages do not. */
const FORMAT = 1;

/** Documentation, scripts that need a shell, what debuggers read, and tables of glibc that Node does not use: it has ICU. */
const LEFT_OUT = [
  /^(boot|usr\/(games|include|src))(\/|$)/,
  /^usr\/s?bin\//,
  /^usr\/share\/(base-files|bug|dict|gcc|gdb|info|lintian|locale|man|misc|perl5|pixmaps)(\/|$)/,
  /^usr\/share\/doc\/[^/]+\/(?!copyright$)/,
  /^usr\/lib\/[^/]+\/(audit|gconv)(\/|$)/,
  /^etc\/(ca-certificates|dpkg|profile\.d|skel|update-motd\.d)(\/|$)/,
];

export const IMAGE_CONFIG: ImageConfig = {
  User: `${USER}:${USER}`,
  Env: ["PATH=/nodejs/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
  Entrypoint: ["/nodejs/bin/node", `${WORKDIR}/cli/metalbridge.mjs`],
  Cmd: ["controller", "--health-address=0.0.0.0"],
  WorkingDir: WORKDIR,
  ExposedPorts: { "9464/tcp": {} },
};

export interface OurImageInput {
  readonly architecture: DebianArchitecture;
  /** What esbuild wrote. */
  readonly bundle: string;
  readonly compression: Compression;
  readonly labels: Readonly<Record<string, string>>;
}

/** Three layers, so that a new bundle changes a small one only. */
export async function ourImage({
  architecture,
  bundle,
  compression,
  labels,
}: OurImageInput): Promise<PlatformImage> {
  const layers = [...(await baseLayers(architecture, compression)), await programLayer(bundle, compression)];
  return { architecture, layers, config: { ...IMAGE_CONFIG, Labels: labels } };
}

/** What does not change with the bundle. */
export async function baseLayers(
  architecture: DebianArchitecture,
  compression: Compression,
): Promise<readonly BuiltLayer[]> {
  return [await systemLayer(architecture, compression), await nodeLayer(architecture, compression)];
}

/** The program's files as they lie in the image. */
export function programEntries(bundle: string): readonly LayerEntry[] {
  const to = (name: string) => path.posix.join(WORKDIR.slice(1), name);
  const files = FILES.flatMap((name) =>
    name === "catalog"
      ? entriesIn(path.join(root, name), to(name))
      : [fileEntry(path.join(root, name), to(name))],
  );
  return [...files, ...entriesIn(bundle, to("dist"))];
}

function systemLayer(architecture: DebianArchitecture, compression: Compression): Promise<BuiltLayer> {
  const lock = readLock();
  const key = cacheKey(FORMAT, compression, lock.packages[architecture]);
  return cachedLayer({ compression, folder: layerFolder(`system-${architecture}`, key) }, async () =>
    systemEntries(await entriesOfPackages(await fetchLocked(lock, architecture))),
  );
}

function nodeLayer(architecture: DebianArchitecture, compression: Compression): Promise<BuiltLayer> {
  const { file, sha256 } = pinnedNode(NODE[architecture]);
  const folder = layerFolder(`node-${architecture}`, cacheKey(FORMAT, compression, sha256));
  return cachedLayer({ compression, folder }, () => {
    const content = stripped(readFileSync(file));
    return [{ type: "file", name: "nodejs/bin/node", mode: 0o755, content }];
  });
}

function programLayer(bundle: string, compression: Compression): Promise<BuiltLayer> {
  const entries = programEntries(bundle);
  const sums = entries.map((entry) =>
    entry.type === "file" ? [entry.name, entry.mode, contentDigestOf(entry.content)] : entry,
  );
  const folder = layerFolder("program", cacheKey(FORMAT, compression, sums));
  return cachedLayer({ compression, folder }, () => {
    removeOld(path.dirname(folder), "program-");
    return entries;
  });
}

/** What Debian's installation would have made: accounts, the file of certificates, and no certificate beside it. */
function systemEntries(packages: readonly LayerEntry[]): readonly LayerEntry[] {
  const kept = packages.filter(({ name }) => !LEFT_OUT.some((rule) => rule.test(name)));
  const isCertificate = /^usr\/share\/ca-certificates\/mozilla\/.*\.crt$/;
  const certificates = kept.flatMap((entry) =>
    entry.type === "file" && isCertificate.test(entry.name) ? [entry] : [],
  );
  const inOrder = certificates.sort((one, other) => (one.name < other.name ? -1 : 1));
  const pem = inOrder.map(({ content }) => `${content.toString("utf8").trimEnd()}\n`).join("");
  return [
    ...kept.filter(({ name }) => !name.startsWith("usr/share/ca-certificates")),
    ...accountEntries(),
    textEntry("etc/ssl/certs/ca-certificates.crt", pem),
    textEntry("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
  ];
}

/** Those of any Unix system, and the image's own user. */
export function accountEntries(): readonly LayerEntry[] {
  const accounts = [
    ["root", 0, "/root"],
    // words-allow: the Unix user of that name
    ["nobody", 65534, "/nonexistent"],
    ["nonroot", USER, "/home/nonroot"],
  ] as const;
  const passwd = accounts.map(([name, id, home]) => `${name}:x:${id}:${id}:${name}:${home}:/sbin/nologin\n`);
  const group = accounts.map(([name, id]) => `${name}:x:${id}:\n`);
  return [
    textEntry("etc/passwd", passwd.join("")),
    textEntry("etc/group", group.join("")),
    { type: "folder", name: "home/nonroot", mode: 0o755 },
  ];
}

function layerFolder(name: string, key: string): string {
  return path.join(imagesCache("layers"), `${name}-${key}`);
}
