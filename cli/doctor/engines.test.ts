import { chmodSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { loadAgentConfig } from "../../agent/config/load.ts";
import { findEngines, foundRuntimesOf } from "./engines.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "metalbridge-doctor-")));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("programs of allowed BackendRuntimes must exist and be executable", async () => {
  const path = join(folder, "serve");
  writeFileSync(path, "#!/bin/sh\n");
  chmodSync(path, 0o755);
  const notes = join(folder, "notes");
  writeFileSync(notes, "text");
  const absent = join(folder, "absent");
  const backends = { mine: { path }, absent: { path: absent }, text: { path: notes } };
  const config = loadAgentConfig({ flags: { stateDir: folder, backends }, env: {} });
  const found = (await findEngines(config, { PATH: "" })).filter(({ runtime }) => runtime.includes("/"));
  expect(found).toMatchObject([
    { runtime: "backend/mine", path },
    { runtime: "backend/absent", path: absent, problem: { code: "RuntimeNotInstalled" } },
    { runtime: "backend/text", path: notes, problem: { code: "RuntimeNotExecutable" } },
  ]);
  expect(foundRuntimesOf(found).found).toEqual([{ name: "backend/mine", path }]);
});
