import { chmod, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import type { RequestListener } from "node:http";
import path from "node:path";
import { expect, test } from "vitest";
import { sha256Hex } from "../../src/util/hash.ts";
import { serveHttp } from "../../test/bed/http-server.ts";
import { until } from "../../test/bed/until.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { cacheDir } from "./cache.mjs";
import { pickRelease } from "./cluster/envtest.mjs";
import { quoted } from "./command.mjs";
import { ensureKueueCrds, findKueueCrds } from "./definitions.mjs";
import { isNewEnough } from "./dependencies.mjs";
import { download } from "./download.mjs";
import { goProgram } from "./go-program.mjs";
import { findDebianMirror } from "./llama/apt-sources.mjs";
import { cachedLlamaServer } from "./llama/cached.mjs";
import { chooseCpuBackend } from "./llama/cpu-backend.mjs";
import { archiveName } from "./llama/release.mjs";
import { createProgress, describeFailure, SetupError } from "./steps.mjs";

test("the Debian mirror is the system's own, in both kinds of source files, never its security archive", () => {
  const oneLine =
    "# deb http://old.example/debian x main\ndeb [arch=amd64] http://m.example/debian/ bookworm main\n";
  expect(findDebianMirror([oneLine])).toBe("http://m.example/debian");
  const stanzas =
    "Types: deb\nURIs: http://m.example/debian-security\nSuites: s\n\nTypes: deb\nURIs: https://n.example/debian\nSuites: b\n";
  expect(findDebianMirror(["", stanzas])).toBe("https://n.example/debian");
  expect(findDebianMirror(["Enabled: no\nURIs: http://m.example/debian\n"])).toBeUndefined();
  expect(findDebianMirror(["deb http://archive.example/ubuntu noble main\n"])).toBeUndefined();
});

test("the CPU backend is the best one that the processor can run", () => {
  const files = ["libggml-cpu-x64.so", "libggml-cpu-haswell.so", "libggml-cpu-skylakex.so"];
  expect(chooseCpuBackend(files, "flags\t\t: fpu avx avx2 fma f16c bmi2\n")).toBe("libggml-cpu-haswell.so");
  expect(chooseCpuBackend(files, "flags : fpu\n")).toBe("libggml-cpu-x64.so");
  expect(chooseCpuBackend(files, "")).toBe("libggml-cpu-x64.so");
  expect(chooseCpuBackend(["libggml-cpu-armv8.0_1.so"], "Features : asimd\n")).toBe(
    "libggml-cpu-armv8.0_1.so",
  );
  expect(chooseCpuBackend([], "flags : avx2\n")).toBeUndefined();
});

test("envtest's newest archive of our Kubernetes line is taken, for this platform only", () => {
  const entry = (version: string, os: string) =>
    `    envtest-v${version}-${os}.tar.gz:\n      hash: ${"a".repeat(128)}\n      selfLink: https://x.example/${version}-${os}\n`;
  const index = `releases:\n${["1.35.0", "1.36.0", "1.36.2", "1.37.0"].map((v) => entry(v, "darwin-arm64") + entry(v, "linux-amd64")).join("")}`;
  const pick = (platform: string, arch: string) => pickRelease(index, { line: "1.36", platform, arch })?.url;
  expect(pick("darwin", "arm64")).toBe("https://x.example/1.36.2-darwin-arm64");
  expect(pick("linux", "x64")).toBe("https://x.example/1.36.2-linux-amd64");
  expect(pick("linux", "riscv64")).toBeUndefined();
});

test("llama.cpp's archives have a name for the machines it supports", () => {
  expect(archiveName("b1", "darwin", "arm64")).toBe("llama-b1-bin-macos-arm64.tar.gz");
  expect(archiveName("b1", "linux", "x64")).toBe("llama-b1-bin-ubuntu-x64.tar.gz");
  expect(archiveName("b1", "win32", "x64")).toBeUndefined();
});

test("a download that stalls before its first byte is given up", async () => {
  await using folder = await temporaryFolder();
  await using server = await serveHttp((_request, response) => response.writeHead(200).flushHeaders());
  const stalled = download(`${server.url}/x`, path.join(folder.path, "x"), { stallMs: 100 });
  await expect(stalled).rejects.toThrow(/broke off \(stalled\)/);
});

test("words in scripts are quoted whatever they hold", () => {
  expect(quoted("/home/o'neil/a b")).toBe(`'/home/o'\\''neil/a b'`);
});

test("the newest cached llama-server wins; one that is still unpacked is not seen", async () => {
  await using folder = await temporaryFolder();
  expect(cachedLlamaServer(path.join(folder.path, "none"))).toBeUndefined();
  for (const name of ["b9", "b10", ".b11"]) {
    const bin = path.join(folder.path, name, "bin");
    await mkdir(bin, { recursive: true });
    await writeFile(path.join(bin, "llama-server"), "", { mode: 0o755 });
  }
  expect(cachedLlamaServer(folder.path)).toBe(path.join(folder.path, "b10", "bin", "llama-server"));
});

test.each([
  ["20.20.2", false],
  ["22.18.9", false],
  ["22.19.0", true],
  ["24.0.0", true],
])("Node %s is new enough: %s", (version, expected) => expect(isNewEnough(version)).toBe(expected));

test("a relative cache folder is refused by name", () => {
  expect(() => cacheDir({ METALBRIDGE_CACHE: "cache" })).toThrow(
    /METALBRIDGE_CACHE must be an absolute path/,
  );
});

test("a failure says what is missing and each way to get it; a bug keeps its stack", () => {
  const text = describeFailure(new SetupError("x is missing", ["install x", "or name it"]));
  expect(text).toBe("setup: x is missing\n  → install x\n  → or name it");
  expect(describeFailure(new TypeError("oops"))).toMatch(/TypeError: oops\n\s+at /);
});

test("a step that fails is not reported as done", async () => {
  const lines: string[] = [];
  const progress = createProgress({ write: (text: string) => lines.push(text) > 0 });
  await expect(progress.during("a", "b", () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  expect(lines.join("")).not.toContain("✓");
});

async function serve(handler: RequestListener): Promise<AsyncDisposable & { url: string }> {
  const server = await serveHttp(handler);
  return { ...server, url: `${server.url}/file` };
}

const content = Buffer.alloc(300_000, "metalbridge");
const hex = sha256Hex(content);

test("a download that broke off continues where it was, and is checked as a whole", async () => {
  await using folder = await temporaryFolder();
  const target = path.join(folder.path, "deep", "file");
  const ranges: (string | undefined)[] = [];
  await using server = await serve((request, response) => {
    ranges.push(request.headers.range);
    const from = Number(request.headers.range?.match(/\d+/)?.[0] ?? 0);
    if (ranges.length === 1) {
      response.writeHead(200, { "content-length": content.length });
      response.write(content.subarray(0, 100_000));
      const isKept = async () => expect((await stat(`${target}.part`)).size).toBeGreaterThan(0);
      void until(isKept, { everyMs: 10 }).finally(() => request.socket.destroy());
      return;
    }
    response.writeHead(206).end(content.subarray(from));
  });
  const digest = { algorithm: "sha256", hex };
  await expect(download(server.url, target, { digest })).rejects.toThrow(
    /broke off .* run setup again to continue/,
  );
  await download(server.url, target, { digest });
  expect(ranges[1]).toMatch(/^bytes=[1-9]\d*-$/);
  expect((await readFile(target)).equals(content)).toBe(true);
});

test("a download with another checksum is removed and refused", async () => {
  await using folder = await temporaryFolder();
  const target = path.join(folder.path, "file");
  await using server = await serve((_request, response) => response.end("something else"));
  await expect(download(server.url, target, { digest: { algorithm: "sha256", hex } })).rejects.toThrow(
    /expected/,
  );
  await expect(readFile(`${target}.part`)).rejects.toThrow(/ENOENT/);
});

test("a place that cannot be reached is named, and not waited for", async () => {
  await using folder = await temporaryFolder();
  const started = performance.now();
  const attempt = download("http://127.0.0.1:1/file", path.join(folder.path, "file"));
  await expect(attempt).rejects.toThrow(/127\.0\.0\.1:1.* cannot be reached/);
  expect(performance.now() - started).toBeLessThan(60_000);
});

test("a program of Go is the one that is named, else one on PATH, else built once, at low priority, into the cache", async () => {
  await using folder = await temporaryFolder();
  const executable = async (name: string, text = "#!/bin/sh\n") => {
    const file = path.join(folder.path, name);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, text);
    await chmod(file, 0o755);
    return file;
  };
  const lines: string[] = [];
  const progress = createProgress({ write: (text: string) => lines.push(text) > 0 });
  const env = { METALBRIDGE_CACHE: path.join(folder.path, "cache"), PATH: "" };
  const tool = goProgram({ program: "tool", variable: "A_TOOL", module: "example.com/tool", version: "v1" });

  expect(await tool.ensure({ progress, env })).toBeUndefined();
  expect(lines.join("")).toMatch(
    /no tool: tests that run it are skipped; install tool .* A_TOOL; or install Go,/,
  );
  await expect(tool.ensure({ progress, env: { ...env, A_TOOL: "/nowhere" } })).rejects.toThrow(
    "A_TOOL names /nowhere, which is no executable file",
  );

  await executable("go/go", "#!/bin/sh\nexit 1\n");
  const withGo = { ...env, PATH: path.join(folder.path, "go") };
  expect(await tool.ensure({ progress, env: withGo })).toBeUndefined();
  await executable(
    "go/go",
    '#!/bin/sh\n: > "$GOBIN/tool"; /bin/chmod 755 "$GOBIN/tool"; echo "$@" > "$GOBIN/args"\n',
  );
  const built = await tool.ensure({ progress, env: withGo });
  expect(await readFile(path.join(path.dirname(built ?? ""), "args"), "utf8")).toBe(
    "install -trimpath -gcflags=all=-dwarf=false -ldflags=-s -w example.com/tool@v1\n",
  );
  expect(tool.find(env)).toBe(built);

  const renamed = goProgram({
    program: "other",
    variable: "A_TOOL",
    module: "example.com/tool",
    version: "v1",
  });
  expect(path.basename((await renamed.ensure({ progress, env: withGo })) ?? "")).toBe("other");
  await executable("go/nice", '#!/bin/sh\nshift 2; NICE=nice exec "$@"\n');
  await executable("go/go", '#!/bin/sh\n: > "$GOBIN/$NICE"; /bin/chmod 755 "$GOBIN/$NICE"\n');
  const low = goProgram({ program: "low", variable: "A_TOOL", module: "example.com/nice", version: "v1" });
  expect(await low.ensure({ progress, env: withGo })).toMatch(/\/low$/);

  const onPath = await executable("bin/tool");
  expect(tool.find({ ...env, PATH: path.dirname(onPath) })).toBe(onPath);
  const named = await executable("named");
  expect(await tool.ensure({ progress, env: { ...env, PATH: path.dirname(onPath), A_TOOL: named } })).toBe(
    named,
  );
});

test("definitions come from the archive of a Go module once; without Go, the message says what is skipped", async () => {
  await using folder = await temporaryFolder();
  const lines: string[] = [];
  const progress = createProgress({ write: (text: string) => lines.push(text) > 0 });
  const env = { METALBRIDGE_CACHE: path.join(folder.path, "cache"), HOME: folder.path, PATH: "" };
  expect(await ensureKueueCrds({ progress, env })).toBeUndefined();
  expect(lines.join("")).toMatch(
    /no definitions of Kueue: tests with queues of Kueue are skipped; install Go,/,
  );

  const file = "kueue.x-k8s.io_workloads.yaml";
  const bases = path.join(folder.path, "module/config/components/crd/bases");
  await mkdir(bases, { recursive: true });
  await writeFile(path.join(bases, file), "kind: CustomResourceDefinition\n");
  const go = path.join(folder.path, "go");
  await writeFile(go, `#!/bin/sh\necho '{"Dir":"${folder.path}/module"}'\n`, { mode: 0o755 });
  const found = await ensureKueueCrds({ progress, env: { ...env, PATH: folder.path } });
  expect(await readFile(path.join(found ?? "", file), "utf8")).toBe("kind: CustomResourceDefinition\n");
  expect(findKueueCrds(env)).toBe(found);
});
