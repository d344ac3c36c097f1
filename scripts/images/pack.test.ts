/** Layers and layouts of small trees: the same bytes twice, and what the specification asks of a layout. */
import { execFile } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { stripped } from "./elf.ts";
import { completed, entriesIn, type LayerEntry, textEntry } from "./entries.ts";
import { type Compression, cachedLayer, contentDigestOf } from "./layer.ts";
import { type ImageDescriptor, packImage, writeFolder, writeTar } from "./layout.ts";

const run = promisify(execFile);

const ENTRIES: readonly LayerEntry[] = [
  textEntry("opt/z", "last"),
  textEntry(`opt/${"long/".repeat(40)}name`, "longer than the header's field"),
  { type: "file", name: "bin/program", mode: 0o755, content: Buffer.from("#!") },
  { type: "link", name: "lib64", target: "usr/lib64" },
  { type: "folder", name: "tmp", mode: 0o1777 },
];
const CONFIG = { User: "65532:65532", Env: [], Entrypoint: ["/bin/program"], WorkingDir: "/" };

async function packInto(folder: string, compression: Compression, entries = ENTRIES) {
  const layer = await cachedLayer({ compression, folder: path.join(folder, "layer") }, () => entries);
  return packImage({
    references: ["registry.example.com/tiny:1.0.0", "registry.example.com/tiny:again"],
    created: "2026-01-02T03:04:05Z",
    platforms: [
      { architecture: "amd64", layers: [layer], config: CONFIG },
      { architecture: "arm64", layers: [layer], config: CONFIG },
    ],
    annotations: { "org.opencontainers.image.version": "1.0.0" },
  });
}

test.each<Compression>(["none", "gzip"])("two layouts have the same bytes (%s)", async (compression) => {
  const tars: Buffer[] = [];
  for (const entries of [ENTRIES, ENTRIES.toReversed()]) {
    await using folder = await temporaryFolder();
    const file = path.join(folder.path, "image.tar");
    await writeTar(await packInto(folder.path, compression, entries), file);
    tars.push(readFileSync(file));
  }
  expect(tars[0]?.equals(tars[1] ?? Buffer.alloc(0))).toBe(true);
});

test("every blob of a layout is what its digest says, and an index leads to both architectures", async () => {
  await using folder = await temporaryFolder();
  const layout = await packInto(folder.path, "gzip");
  await writeFolder(layout, path.join(folder.path, "image"));
  const file = (name: string) => readFileSync(path.join(folder.path, "image", name));
  const json = (name: string) => JSON.parse(file(name).toString("utf8"));
  const blob = ({ digest, size }: ImageDescriptor) => {
    const content = file(`blobs/${digest.replace(":", "/")}`);
    expect(contentDigestOf(content)).toBe(digest);
    expect(content).toHaveLength(size);
    return content;
  };
  const read = (descriptor: ImageDescriptor) => JSON.parse(blob(descriptor).toString("utf8"));
  expect(json("oci-layout")).toEqual({ imageLayoutVersion: "1.0.0" });
  const [first, second] = json("index.json").manifests as ImageDescriptor[];
  expect(first?.annotations).toEqual({
    "io.containerd.image.name": "registry.example.com/tiny:1.0.0",
    "org.opencontainers.image.ref.name": "1.0.0",
  });
  expect([first?.digest, second?.digest]).toEqual([layout.digest, layout.digest]);
  const index = read(first ?? { mediaType: "", digest: "", size: 0 });
  expect(index.annotations).toEqual({ "org.opencontainers.image.version": "1.0.0" });
  expect(index.manifests.map(({ platform }: ImageDescriptor) => platform)).toEqual([
    { os: "linux", architecture: "amd64" },
    { os: "linux", architecture: "arm64" },
  ]);
  for (const manifest of index.manifests.map(read)) {
    const config = read(manifest.config);
    expect(config).toMatchObject({ created: "2026-01-02T03:04:05Z", os: "linux", config: CONFIG });
    expect(config.rootfs.diff_ids).toEqual(
      manifest.layers.map((layer: ImageDescriptor) => contentDigestOf(gunzipSync(blob(layer)))),
    );
  }
  expect(readdirSync(path.join(folder.path, "image", "blobs", "sha256"))).toHaveLength(layout.blobs.size);
});

test("a layer holds sorted entries of root with one date, parents first", async () => {
  await using folder = await temporaryFolder();
  const { file } = await cachedLayer(
    { compression: "none", folder: path.join(folder.path, "l") },
    () => ENTRIES,
  );
  const { stdout } = await run("tar", ["--numeric-owner", "-tvf", file], {
    env: { ...process.env, TZ: "UTC" },
  });
  const lines = stdout.trim().split("\n");
  for (const line of lines) expect(line).toMatch(/ 0\/0 +\d+ 2000-01-01 00:00/);
  expect(lines.map((line) => [line.slice(0, 10), line.replace(/^.*00:00 /, "").slice(0, 20)])).toEqual([
    ["drwxr-xr-x", "bin/"],
    ["-rwxr-xr-x", "bin/program"],
    ["lrwxrwxrwx", "lib64 -> usr/lib64"],
    ["drwxr-xr-x", "opt/"],
    ...lines.slice(4, 44).map(() => ["drwxr-xr-x", expect.stringMatching(/^opt\/long\//)]),
    ["-rw-r--r--", expect.stringMatching(/^opt\/long\//)],
    ["-rw-r--r--", "opt/z"],
    ["drwxrwxrwt", "tmp/"],
  ]);
});

test("a layer that is in the cache is not made again, and one that was not finished is", async () => {
  await using folder = await temporaryFolder();
  const layer = { compression: "none", folder: path.join(folder.path, "l") } as const;
  const first = await cachedLayer(layer, () => ENTRIES);
  const again = await cachedLayer(layer, () => Promise.reject(new Error("made again")));
  expect(again).toEqual(first);
  const other = { ...layer, folder: path.join(folder.path, "other") };
  await expect(cachedLayer(other, () => Promise.reject(new Error("no mirror")))).rejects.toThrow("no mirror");
  expect(await cachedLayer(other, () => ENTRIES)).toMatchObject({ digest: first.digest });
  expect(readdirSync(folder.path).sort()).toEqual(["l", "other"]);
});

test("files of a folder lose their dates and what group and others may do", async () => {
  await using folder = await temporaryFolder();
  const file = path.join(folder.path, "a", "b");
  mkdirSync(path.dirname(file));
  writeFileSync(file, "x", { mode: 0o700 });
  utimesSync(file, 1, 1);
  expect(completed(entriesIn(folder.path, "opt"))).toEqual([
    { type: "folder", name: "opt", mode: 0o755 },
    { type: "folder", name: "opt/a", mode: 0o755 },
    { type: "file", name: "opt/a/b", mode: 0o755, content: Buffer.from("x") },
  ]);
});

test.each<[string, readonly LayerEntry[], RegExp]>([
  ["one name twice", [textEntry("a", "1"), textEntry("a", "2")], /two entries .* name a$/],
  ["a file and a folder", [textEntry("a", "1"), { type: "folder", name: "a", mode: 0o755 }], /name a$/],
  [
    "a file below a link",
    [{ type: "link", name: "bin", target: "/etc" }, textEntry("bin/x", "1")],
    /is a link/,
  ],
])("%s is refused", (_, entries, message) => {
  expect(() => completed(entries)).toThrow(message);
});

test("only programs for Linux are stripped", () => {
  expect(() => stripped(Buffer.alloc(64))).toThrow(/ELF/);
});
