import { execFileSync } from "node:child_process";
import { closeSync, existsSync, openSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";

const MODULE = path.join(import.meta.dirname, "json-log.ts");
const FULL = "/dev/full";

it.skipIf(!existsSync(FULL))("keeps the program running when standard error is on a full disk", () => {
  const program = `import { createJsonLog } from ${JSON.stringify(MODULE)};
    const log = createJsonLog("info");
    for (let line = 0; line < 10_000; line += 1) log.info({ line }, "not written");
    process.stdout.write("running");`;
  const full = openSync(FULL, "w");
  const args = ["--no-warnings", "--input-type=module", "-e", program];
  const output = execFileSync(process.execPath, args, { stdio: ["ignore", "pipe", full], encoding: "utf8" });
  closeSync(full);
  expect(output).toBe("running");
});
