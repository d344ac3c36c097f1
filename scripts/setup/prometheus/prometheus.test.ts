import { chmod, mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { createProgress } from "../steps.mjs";
import { versionOf } from "./debian.mjs";
import { findPrometheus } from "./find.mjs";
import { ensurePrometheus } from "./prometheus.mjs";

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

test("a package's name holds its version", () => {
  expect(versionOf("prometheus_2.42.0+ds-5+deb12u1_amd64.deb")).toBe("2.42.0+ds-5+deb12u1");
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

test("where there is neither Prometheus nor apt, setup names what is skipped and the fix, and continues", async () => {
  await using folder = await temporaryFolder();
  const { progress, lines } = listen();
  const env = { METALBRIDGE_CACHE: folder.path, PATH: "" };
  expect(await ensurePrometheus({ progress, env })).toBeUndefined();
  expect(lines.join("")).toMatch(/are skipped; install Prometheus .* METALBRIDGE_PROMETHEUS;/);
});
