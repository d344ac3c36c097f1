/** What an archive of an engine may hold, and what root refuses to unpack. */
import {
  lstatSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type PackedEntry, packEntries } from "../../test/fixtures/engine-archive.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { platformsOf } from "./engines.ts";
import { type UnpackLimits, unpackEngine } from "./unpack.ts";

async function unpack(entries: readonly PackedEntry[], limits?: UnpackLimits) {
  const scratch = await temporaryFolder();
  const [archive, folder] = [path.join(scratch.path, "a.tar.gz"), path.join(scratch.path, "out")];
  await packEntries(archive, entries);
  await mkdir(folder);
  const tree = await unpackEngine(archive, folder, limits).catch((error: Error) => error);
  return {
    tree,
    folder,
    outside: readdirSync(scratch.path),
    [Symbol.asyncDispose]: scratch[Symbol.asyncDispose],
  };
}

test("files, folders and the links between libraries are unpacked with modes that only their owner may write", async () => {
  await using done = await unpack([
    { name: "./llama/", type: "directory", mode: 0o777 },
    { name: "./llama/llama-server", mode: 0o777, text: "program" },
    { name: "llama/lib.so", type: "symlink", linkname: "lib.so.0" },
    { name: "llama/lib.so.0", type: "symlink", linkname: "../llama/lib.so.0.1" },
    { name: "llama/lib.so.0.1", mode: 0o666, text: "library" },
    { name: "constructor", type: "symlink", linkname: "llama/lib.so.0.1" },
  ]);
  const at = (name: string) => path.join(done.folder, name);
  expect(done.tree).toMatchObject({
    files: {
      "llama/llama-server": expect.stringMatching(/^[0-9a-f]{64}$/),
      "llama/lib.so.0.1": expect.any(String),
    },
    links: {
      "llama/lib.so": "lib.so.0",
      "llama/lib.so.0": "../llama/lib.so.0.1",
      constructor: "llama/lib.so.0.1",
    },
  });
  expect(readFileSync(at("llama/lib.so"), "utf8")).toBe("library");
  expect(statSync(at("llama/llama-server")).mode & 0o7777).toBe(0o755);
  expect(lstatSync(at("llama/lib.so.0.1")).mode & 0o7777).toBe(0o644);
});

const file = { name: "llama/llama-server", mode: 0o755, text: "x" } as const;
const symlink = (name: string, linkname: string) => ({ name, type: "symlink", linkname }) as const;

test.each<[string, readonly PackedEntry[], RegExp]>([
  ["a path above the archive", [{ ...file, name: "a/../../evil" }], /"a\/..\/..\/evil" is not a path within/],
  ["an absolute path", [{ ...file, name: "/etc/evil" }], /"\/etc\/evil" is not a path within/],
  ["a link to an absolute path", [file, symlink("llama/l", "/etc")], /leads out of the archive, to \/etc/],
  ["a link above the archive", [file, symlink("l", "../x")], /the link l leads out of the archive/],
  [
    "a link that leads out through another one",
    [
      file,
      symlink("llama/d", "../other/deep"),
      { ...file, name: "other/deep/x" },
      symlink("a", "llama/d/../../.."),
    ],
    /the link a leads out of the archive/,
  ],
  [
    "a link below another one, whose place is elsewhere than its path says",
    [
      file,
      { ...file, name: "d/x" },
      symlink("e/f/l", "../../d"),
      symlink("e/f/l/k", "../.."),
      symlink("e/f/l/k/evil", "x"),
    ],
    /the link e\/f\/l\/k is below the link e\/f\/l/,
  ],
  ["a link to nothing", [file, symlink("l", "missing")], /the link l leads to nothing/],
  ["a file below a link", [symlink("llama", "/tmp"), file], /the link llama leads out/],
  [
    "a file in the place of a link",
    [symlink("d", "llama"), file, { ...file, name: "d/x" }],
    /"d" is in the archive twice/,
  ],
  ["a link twice", [symlink("d", "llama"), symlink("d", "llama"), file], /"d" is in the archive twice/],
  ["a file twice", [file, file], /"llama\/llama-server" is in the archive twice/],
  ["a hard link", [file, { name: "h", type: "link", linkname: "/etc/passwd" }], /h is of type link/],
  ["a device", [{ name: "d", type: "character-device" }], /d is of type character-device/],
  ["a FIFO", [{ name: "f", type: "fifo" }], /f is of type fifo/],
  ["a program with set-user-ID", [{ ...file, mode: 0o4755 }], /would run with the rights of its owner/],
])("%s refuses the archive, and nothing is written outside", async (_, entries, why) => {
  await using done = await unpack(entries);
  expect(done.tree).toMatchObject({ code: "EngineArchiveInvalid", message: expect.stringMatching(why) });
  expect(done.outside.sort()).toEqual(["a.tar.gz", "out"]);
});

test("unpackEngine writes nothing outside the folder and creates no link that leads there", async () => {
  const parts = fc.array(fc.constantFrom("a", "b", "c", "..", "."), { minLength: 1, maxLength: 5 });
  const relative = parts.map((some) => some.join("/"));
  const entry: fc.Arbitrary<PackedEntry> = fc.oneof(
    relative.map((name) => ({ name, text: "x" })),
    relative.map((name) => ({ name, type: "directory" }) as const),
    { weight: 3, arbitrary: fc.tuple(relative, relative).map(([name, linkname]) => symlink(name, linkname)) },
  );
  const check = async (entries: readonly PackedEntry[]) => {
    await using done = await unpack(entries);
    expect(done.outside.sort()).toEqual(["a.tar.gz", "out"]);
    if (done.tree instanceof Error) {
      expect(done.tree).toMatchObject({ code: "EngineArchiveInvalid" });
      return;
    }
    const real = realpathSync(done.folder);
    for (const name of Object.keys(done.tree.links))
      expect(realpathSync(path.join(real, name)).startsWith(`${real}/`)).toBe(true);
  };
  await fc.assert(fc.asyncProperty(fc.array(entry, { minLength: 1, maxLength: 6 }), check), { numRuns: 200 });
});

test.each([
  ["bytes", { bytes: 10, entries: 10 }, /more than 10 bytes/],
  ["entries", { bytes: 1_000, entries: 1 }, /more than 1 entries/],
])("an archive with too many %s is refused before it fills the disk", async (_, limits, why) => {
  const entries = [
    { name: "a", text: "12345678" },
    { name: "b", text: "12345678" },
  ];
  await using done = await unpack(entries, limits);
  expect(done.tree).toMatchObject({ code: "EngineArchiveInvalid", message: expect.stringMatching(why) });
});

test.each<[string, () => Buffer]>([
  ["zeros after its end", () => Buffer.alloc(64 << 20)],
  ["headers for the next entry, which count as no entry", paxHeaders],
])("an archive that decompresses to endless %s is refused at its limit", async (_, more) => {
  await using scratch = await temporaryFolder();
  const [archive, out] = [path.join(scratch.path, "a"), path.join(scratch.path, "out")];
  await mkdir(out);
  await packEntries(archive, [{ name: "a", text: "x" }]);
  const tar = gunzipSync(readFileSync(archive)).subarray(0, 1_024);
  writeFileSync(archive, gzipSync(Buffer.concat([tar, more(), Buffer.alloc(1_024)]), { level: 1 }));
  await expect(unpackEngine(archive, out, { bytes: 1_000, entries: 10 })).rejects.toMatchObject({
    code: "EngineArchiveInvalid",
    message: expect.stringMatching(/decompresses to more than \d+ bytes/),
  });
});

/** 64 MiB of them, each as large as the reader of the format accepts. */
function paxHeaders(): Buffer {
  const size = 4 << 20;
  const head = Buffer.alloc(512);
  const put = (text: string, at: number) => head.write(text, at, "latin1");
  put("PaxHeader", 0);
  put(`0000644\0${"0000000\0".repeat(2)}`, 100);
  put(`${size.toString(8).padStart(11, "0")}\0${"0".repeat(11)}\0${" ".repeat(8)}x`, 124);
  put("ustar\u000000", 257);
  const sum = head.reduce((total, byte) => total + byte, 0);
  put(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  const record = `${size} comment=`;
  const body = Buffer.alloc(size, "x");
  body.write(record);
  body.write("\n", size - 1);
  return Buffer.concat(Array(16).fill(Buffer.concat([head, body])));
}

test("a file that is not an archive, or is truncated, is refused", async () => {
  await using scratch = await temporaryFolder();
  const [archive, out] = [path.join(scratch.path, "a"), path.join(scratch.path, "out")];
  await mkdir(out);
  writeFileSync(archive, "PK\u0003\u0004");
  await expect(unpackEngine(archive, out)).rejects.toMatchObject({ code: "EngineArchiveInvalid" });
  await packEntries(archive, [{ name: "a", text: Buffer.alloc(100_000, "ab") }]);
  truncateSync(archive, statSync(archive).size - 30);
  await expect(unpackEngine(archive, out)).rejects.toMatchObject({ code: "EngineArchiveInvalid" });
});

function head(bytes: readonly number[]): Buffer {
  return Buffer.concat([Buffer.from(bytes), Buffer.alloc(64)]);
}
const elf = (machine: number) =>
  head([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, machine, 0]);
const fat = [0xca, 0xfe, 0xba, 0xbe, 0, 0, 0, 2];

test.each([
  ["ELF for x86-64", elf(62), ["linux-x64"]],
  ["ELF for Arm", elf(183), ["linux-arm64"]],
  ["Mach-O for Apple silicon", head([0xcf, 0xfa, 0xed, 0xfe, 0x0c, 0, 0, 0x01]), ["darwin-arm64"]],
  [
    "a universal Mach-O",
    head([...fat, 1, 0, 0, 7, ...Array(16).fill(0), 1, 0, 0, 0x0c]),
    ["darwin-x64", "darwin-arm64"],
  ],
  ["a program of Windows", head([0x4d, 0x5a]), ["another system"]],
  ["a script", Buffer.from("#!/bin/sh\n"), undefined],
])("the platform of %s is read", async (_, bytes, expected) => {
  await using scratch = await temporaryFolder();
  const program = path.join(scratch.path, "program");
  writeFileSync(program, bytes);
  expect(await platformsOf(program)).toEqual(expected);
});
