/** Which version an installed Ollama is reported with. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { createOllamaFinder } from "./program.ts";

test.each([
  ["Warning: client version is 0.14.2", "0.14.2"],
  ["ollama version is 0.9.6", "0.9.6"],
  ["Warning: client version is 0.0.0", "development build"],
  ["Warning: client version is 0.0.0-rc1", "0.0.0-rc1"],
])("an Ollama that says %j is version %s", async (said, version) => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, "ollama");
  writeFileSync(path, `#!/bin/sh\necho '${said}' >&2\n`, { mode: 0o755 });
  const find = createOllamaFinder({ paths: [path], env: { PATH: "/usr/bin:/bin" } });
  expect(await find()).toEqual({ name: "ollama", version, path });
});
