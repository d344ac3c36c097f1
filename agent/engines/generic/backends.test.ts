import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { allowedPath, backendsConfig, findBackends } from "./backends.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "metalbridge-backends-")));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const cellar = join(folder, "Cellar/my-engine/1.4.2/bin");
mkdirSync(cellar, { recursive: true });
writeFileSync(join(cellar, "serve"), "#!/bin/sh\n");
chmodSync(join(cellar, "serve"), 0o755);
symlinkSync(join(cellar, "serve"), join(folder, "linked"));
writeFileSync(join(folder, "notes"), "text");

const backends = { mine: { path: "/opt/mine/serve" } };

test.each([
  ["a name", "serve"],
  ["another name than that of the file", "other"],
  ["the path itself", "/opt/mine/serve"],
])("a BackendRuntime that names its program by %s runs the allowed path", (_, program) => {
  expect(allowedPath(backends, "mine", program)).toBe("/opt/mine/serve");
});

test.each([
  ["a name that is not allowed", "other", "serve", "does not allow BackendRuntime other"],
  ["a name that every object has", "constructor", "serve", "does not allow BackendRuntime constructor"],
  ["another path", "mine", "/opt/other/serve", "runs /opt/other/serve, but this host allows only /opt/mine"],
  ["a path around it", "mine", "/opt/mine/../mine/serve", "allows only /opt/mine/serve"],
])("refuses %s", (_, name, program, says) => {
  expect(() => allowedPath(backends, name, program)).toThrow(
    expect.objectContaining({ code: "BackendNotAllowed", message: expect.stringContaining(says) }),
  );
});

test("hosts report the allowed programs that exist, with the version of a Homebrew formula", async () => {
  const path = join(folder, "linked");
  const found = await findBackends({
    mine: { path },
    absent: { path: join(folder, "absent") },
    text: { path: join(folder, "notes") },
  });
  expect(found).toEqual([{ name: "backend/mine", path, version: "1.4.2" }]);
});

test.each([
  ["a relative path", { mine: { path: "bin/serve" } }],
  ["no path", { mine: {} }],
  ["a list of paths", { mine: { path: ["/opt/mine/serve"] } }],
  ["an unknown key", { mine: { path: "/opt/mine/serve", args: ["--fast"] } }],
  ["a name that no BackendRuntime can have", { "Mine/1": { path: "/opt/mine/serve" } }],
  ["too many entries", Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`b${i}`, { path: "/b" }]))],
])("the configuration refuses %s", (_, value) => {
  expect(backendsConfig.safeParse(value).success).toBe(false);
});
