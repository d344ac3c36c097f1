import { createHash } from "node:crypto";
import { once } from "node:events";
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { run } from "../command.mjs";
import { createProgress } from "../steps.mjs";
import { versionOf } from "./debian.mjs";
import { findPrometheus } from "./find.mjs";
import { ensurePrometheus } from "./prometheus.mjs";
import { archiveName, digestOf } from "./release.mjs";

/** Both programs, as scripts that answer --version. */
async function putPrograms(folder: string, exitCode = 0): Promise<string> {
  await mkdir(folder, { recursive: true });
  for (const name of ["prometheus", "promtool"]) {
    await writeFile(path.join(folder, name), `#!/bin/sh\necho ${name}\nexit ${exitCode}\n`);
    await chmod(path.join(folder, name), 0o755);
  }
  return folder;
}

function listen() {
  const lines: string[] = [];
  return { lines, progress: createProgress({ write: (text: string) => lines.push(text) > 0 }) };
}

/** A copy of the release page with one archive, made of `folder`; `sum` is what it says of the archive. */
async function serveRelease(folder: string, sum?: string) {
  const name = archiveName("9.9.9", process.platform, process.arch) ?? "none";
  const top = path.basename(name, ".tar.gz");
  await putPrograms(path.join(folder, top));
  await run("tar", ["-czf", path.join(folder, name), "-C", folder, top]);
  const archive = await readFile(path.join(folder, name));
  const hex = sum ?? createHash("sha256").update(archive).digest("hex");
  const files: Readonly<Record<string, Buffer | string>> = {
    "/v9.9.9/sha256sums.txt": `${"0".repeat(64)}  other.tar.gz\n${hex}  ${name}\n`,
    [`/v9.9.9/${name}`]: archive,
  };
  const server = createServer(({ url = "" }, response) => {
    const content = files[url];
    response.writeHead(content === undefined ? 404 : 200).end(content);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return {
    env: {
      PATH: "",
      METALBRIDGE_CACHE: path.join(folder, "cache"),
      METALBRIDGE_PROMETHEUS_RELEASES: `http://127.0.0.1:${port}`,
      METALBRIDGE_PROMETHEUS_VERSION: "9.9.9",
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

test("archives have a name for the machines that Prometheus supports, packages a version", () => {
  expect(archiveName("3.5.0", "darwin", "arm64")).toBe("prometheus-3.5.0.darwin-arm64.tar.gz");
  expect(archiveName("3.5.0", "linux", "x64")).toBe("prometheus-3.5.0.linux-amd64.tar.gz");
  expect(archiveName("3.5.0", "win32", "x64")).toBeUndefined();
  expect(versionOf("prometheus_2.42.0+ds-5+deb12u1_amd64.deb")).toBe("2.42.0+ds-5+deb12u1");
});

test("the digest is that of the whole name", () => {
  const sums = `${"a".repeat(64)}  x-b.tar.gz\n${"b".repeat(64)}  b.tar.gz\n`;
  expect(digestOf("b.tar.gz", sums)).toBe("b".repeat(64));
  expect(digestOf("c.tar.gz", sums)).toBeUndefined();
});

test("a named folder goes before PATH, PATH before the cache, and half a Prometheus counts nowhere", async () => {
  await using folder = await temporaryFolder();
  const at = (...names: readonly string[]) => path.join(folder.path, ...names);
  const env = { METALBRIDGE_CACHE: at("cache"), PATH: at("bin"), METALBRIDGE_PROMETHEUS: at("named") };
  expect(findPrometheus(env)).toBeUndefined();
  await putPrograms(at("cache", "prometheus", "2.9.0"));
  await putPrograms(at("cache", "prometheus", "2.42.0"));
  await putPrograms(at("cache", "prometheus", ".complete-3"));
  expect(findPrometheus(env)).toBe(at("cache", "prometheus", "2.42.0"));
  await mkdir(at("bin"));
  await writeFile(at("bin", "promtool"), "", { mode: 0o755 });
  expect(findPrometheus(env)).toBe(at("cache", "prometheus", "2.42.0"));
  await putPrograms(at("bin"));
  expect(findPrometheus(env)).toBe(at("bin"));
  await putPrograms(at("named"));
  expect(findPrometheus(env)).toBe(at("named"));
});

test("a named folder without Prometheus, or with a broken one, is an error and never replaced", async () => {
  await using folder = await temporaryFolder();
  const env = { METALBRIDGE_CACHE: folder.path, PATH: "", METALBRIDGE_PROMETHEUS: folder.path };
  const { progress } = listen();
  await expect(ensurePrometheus({ progress, env })).rejects.toThrow(/does not hold prometheus and promtool/);
  await putPrograms(folder.path, 3);
  await expect(ensurePrometheus({ progress, env })).rejects.toThrow(/does not answer --version/);
});

test("a release is fetched, checked, and found the next time without asking", async () => {
  await using folder = await temporaryFolder();
  const { progress } = listen();
  await using release = await serveRelease(folder.path);
  const found = path.join(folder.path, "cache", "prometheus", "9.9.9");
  expect(await ensurePrometheus({ progress, env: release.env })).toBe(found);
  const elsewhere = { ...release.env, METALBRIDGE_PROMETHEUS_RELEASES: "http://127.0.0.1:1" };
  expect(await ensurePrometheus({ progress, env: elsewhere })).toBe(found);
});

test.each([
  ["an archive with another digest", "0".repeat(64), "9.9.9", /sha256 is [0-9a-f]{64}, expected 0{64}/],
  [
    "a release that is not there",
    undefined,
    "9.9.8",
    /sha256sums\.txt cannot be reached \(it answered 404\)/,
  ],
])(
  "%s: the reason is said, and what helps, and the tests go on without",
  async (_name, sum, version, why) => {
    await using folder = await temporaryFolder();
    await using release = await serveRelease(folder.path, sum);
    const { progress, lines } = listen();
    const env = { ...release.env, METALBRIDGE_PROMETHEUS_VERSION: version };
    expect(await ensurePrometheus({ progress, env })).toBeUndefined();
    expect(lines.join("")).toMatch(why);
    expect(lines.join("")).toMatch(/are skipped; install Prometheus .* METALBRIDGE_PROMETHEUS;/);
  },
);
