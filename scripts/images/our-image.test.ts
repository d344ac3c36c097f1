/** Our own image, from Debian's packages and the pinned Node: size, what is in it and what is not, and that its program runs. */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { bundleInto } from "../bundle/bundle.ts";
import { findOnPath } from "../setup/command.mjs";
import { imagesCache } from "./cache.ts";
import { DEBIAN_ARCHITECTURES, type DebianArchitecture } from "./debian-lock.ts";
import type { PlatformImage } from "./layout.ts";
import { ourImage } from "./ours.ts";

const run = promisify(execFile);
const isPossible = process.platform === "linux" && findOnPath("dpkg-deb") !== undefined;
const MEGABYTE = 1e6;
const LIMIT = 160 * MEGABYTE;

const OWN: Readonly<Record<string, DebianArchitecture>> = { x64: "amd64", arm64: "arm64" };
const LOADERS = {
  amd64: ["usr/lib/x86_64-linux-gnu", "ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2"],
  arm64: ["usr/lib/aarch64-linux-gnu", "ld-linux-aarch64.so.1", "/lib/ld-linux-aarch64.so.1"],
} as const;

describe.skipIf(!isPossible)("our image (needs Linux and dpkg-deb)", () => {
  let folder = "";
  const images: Partial<Record<DebianArchitecture, PlatformImage>> = {};
  const imageOf = (architecture: DebianArchitecture) => images[architecture] ?? expect.unreachable();
  const build = (architecture: DebianArchitecture) =>
    ourImage({ architecture, bundle: path.join(folder, "bundle"), compression: "none", labels: {} });
  /** Mode and name of every entry of all layers. */
  const list = async (architecture: DebianArchitecture) => {
    const lines: string[] = [];
    for (const { file } of imageOf(architecture).layers) {
      const { stdout } = await run("tar", ["-tvf", file], { maxBuffer: 16 << 20 });
      lines.push(...stdout.trim().split("\n"));
    }
    return lines.map((line) => {
      const [mode = "", , , , , name = "", , target] = line.split(/\s+/);
      return { mode, name, target };
    });
  };

  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), "mb-image-"));
    await bundleInto(path.join(folder, "bundle"));
    for (const architecture of DEBIAN_ARCHITECTURES) images[architecture] = await build(architecture);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test.each(DEBIAN_ARCHITECTURES)("takes at most 160 MB unpacked (%s)", (architecture) => {
    const sizes = imageOf(architecture).layers.map(({ uncompressedSize }) => uncompressedSize);
    const total = sizes.reduce((sum, size) => sum + size, 0);
    console.log(
      `${architecture}: ${(total / MEGABYTE).toFixed(1)} MB in layers of ${sizes.join(", ")} bytes`,
    );
    expect(total).toBeLessThan(LIMIT);
  });

  test.each(DEBIAN_ARCHITECTURES)(
    "holds one program, Node, and the libraries that it names (%s)",
    async (architecture) => {
      const entries = await list(architecture);
      const [libraries, loader, interpreter] = LOADERS[architecture];
      const executable = entries.filter(({ mode }) => mode.startsWith("-") && mode.includes("x"));
      expect(executable.map(({ name }) => name).sort()).toEqual([
        "nodejs/bin/node",
        "opt/metalbridge/cli/metalbridge.mjs",
        `${libraries}/${loader}`,
        `${libraries}/libc.so.6`,
      ]);
      const programs = entries.filter(({ name }) => /(^|\/)s?bin\/./.test(name));
      expect(programs.map(({ name }) => name)).toEqual(["nodejs/bin/node"]);
      const names = entries.map(({ name }) => name);
      // What `lib` and `lib64` lead to is the loader's folder.
      expect(entries).toContainEqual(
        expect.objectContaining({
          name: path.dirname(interpreter).slice(1),
          target: expect.stringMatching(/^usr\//),
        }),
      );
      for (const library of ["dl.so.2", "m.so.6", "pthread.so.0", "gcc_s.so.1", "stdc++.so.6", "c.so.6"])
        expect(names).toContain(`${libraries}/lib${library}`);
    },
  );

  test("holds what programs expect of a system, the program's files, and nothing set-user-ID", async () => {
    const entries = await list("amd64");
    const names = new Set(entries.map(({ name }) => name));
    for (const name of [
      "etc/passwd",
      "etc/group",
      "etc/nsswitch.conf",
      "etc/os-release",
      "etc/ssl/certs/ca-certificates.crt",
      "usr/share/zoneinfo/Europe/Berlin",
      "usr/share/doc/libc6/copyright",
      "var/lib/dpkg/status.d/libc6",
      "opt/metalbridge/LICENSE",
      "opt/metalbridge/package.json",
      "opt/metalbridge/dist/metalbridge.mjs",
    ])
      expect(names).toContain(name);
    const top = [...names].flatMap((name) => /^opt\/metalbridge\/([^/]+)\/?$/.exec(name)?.[1] ?? []);
    expect(top.sort()).toEqual(["LICENSE", "catalog", "cli", "dist", "package.json"]);
    expect(entries.filter(({ mode }) => /^-.*[sS]/.test(mode))).toEqual([]);
    expect(imageOf("amd64").config.User).toBe("65532:65532");
  });

  test("its program runs with its own loader and libraries alone", async () => {
    const architecture = OWN[process.arch] ?? "amd64";
    const root = path.join(folder, "root");
    mkdirSync(root);
    const { layers, config } = imageOf(architecture);
    for (const { file } of layers) await run("tar", ["-xf", file, "-C", root]);
    const [libraries, loader] = LOADERS[architecture];
    const [node = "", program = ""] = config.Entrypoint;
    const within = (name: string) => path.join(root, name);
    const args = ["--inhibit-cache", "--library-path", within(libraries)];
    const start = (...more: readonly string[]) =>
      run(within(path.join(libraries, loader)), [...args, ...more], { env: {} });
    const linked = await start("--list", within(node));
    const outside = linked.stdout.split("\n").filter((line) => line.includes("=> ") && !line.includes(root));
    expect(outside.filter((line) => !/=> \S*ld-linux/.test(line))).toEqual([]);
    expect((await start(within(node), within(program), "catalog", "show", "Qwen2.5-7B")).stdout).toContain(
      "Qwen/Qwen2.5-7B-Instruct",
    );
  });

  test("a second build without any layer in the cache has the same layers", async () => {
    const cache = path.join(folder, "cache");
    mkdirSync(path.join(cache, "images"), { recursive: true });
    symlinkSync(imagesCache("debian"), path.join(cache, "images", "debian"));
    const first = imageOf("amd64");
    vi.stubEnv("METALBRIDGE_CACHE", cache);
    try {
      const second = await build("amd64");
      expect(second.layers.map(({ file }) => file)).not.toEqual(first.layers.map(({ file }) => file));
      expect(second.layers.map(({ digest }) => digest)).toEqual(first.layers.map(({ digest }) => digest));
    } finally {
      vi.unstubAllEnvs();
    }
  });
});
