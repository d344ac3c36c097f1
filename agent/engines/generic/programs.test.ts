import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { checkProgram, checkVariables } from "./programs.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "metalbridge-programs-")));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const root = join(folder, "root");
mkdirSync(join(root, "bin"), { recursive: true });
mkdirSync(join(folder, "root-2"));
for (const path of ["root/bin/serve", "root-2/serve"]) {
  writeFileSync(join(folder, path), "#!/bin/sh\n");
  chmodSync(join(folder, path), 0o755);
}
writeFileSync(join(root, "notes"), "text");
symlinkSync(join(root, "bin/serve"), join(root, "inward"));
symlinkSync("/bin/sh", join(root, "outward"));
symlinkSync(join(root, "bin/serve"), join(folder, "into"));
symlinkSync(root, join(folder, "linked-root"));

test.each([
  ["a program in a root", "root/bin/serve", ["root"]],
  ["a link that stays in the root", "root/inward", ["root"]],
  ["a program that is a root itself", "root/bin/serve", ["root/bin/serve"]],
  ["a program below a root that is a link", "linked-root/bin/serve", ["linked-root"]],
])("allows %s", async (_, path, roots) => {
  await checkProgram(
    join(folder, path),
    roots.map((name) => join(folder, name)),
  );
});

test.each([
  ["without roots", "root/bin/serve", [], "ProgramNotAllowed"],
  ["a neighbor whose name begins as the root's", "root-2/serve", ["root"], "ProgramNotAllowed"],
  ["a way out by dots", "root/../root-2/serve", ["root"], "ProgramNotAllowed"],
  ["a link that leads out", "root/outward", ["root"], "ProgramNotAllowed"],
  ["a link from outside into the root", "into", ["root"], "ProgramNotAllowed"],
  ["a neighbor of a program that is a root", "root/notes", ["root/bin/serve"], "ProgramNotAllowed"],
  ["what does not exist", "root/absent", ["root"], "RuntimeNotInstalled"],
  ["what is not executable", "root/notes", ["root"], "RuntimeNotExecutable"],
  ["a folder", "root/bin", ["root"], "RuntimeNotExecutable"],
])("refuses %s", async (_, path, roots, code) => {
  const allowed = roots.map((name) => join(folder, name));
  await expect(checkProgram(`${folder}/${path}`, allowed)).rejects.toMatchObject({ code });
});

test.each([
  ["a variable that the configuration names", "LEVEL"],
  ["a variable of a known program", "HF_HUB_OFFLINE"],
])("a service sets %s", (_, name) => {
  checkVariables({ env: [{ name, value: "" }] }, ["LEVEL"]);
});

test.each([
  ...["GGML_BACKEND_PATH", "OPENSSL_CONF", "PYTHONUSERBASE", "HOME", "LD_PRELOAD", "level"],
  "constructor",
])("a service may not set %s, which the configuration does not name", (name) => {
  expect(() => checkVariables({ env: [{ name, value: "" }] }, ["LEVEL"])).toThrow(
    expect.objectContaining({ code: "CommandInvalid", message: expect.stringContaining("generic.env") }),
  );
});
