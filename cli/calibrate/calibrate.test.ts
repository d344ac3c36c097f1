import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";

const PROGRAM = new URL("../metalbridge.mjs", import.meta.url).pathname;
const program = findLlamaServer() ?? "";

const metalbridge = (...args: readonly string[]) =>
  promisify(execFile)(process.execPath, [PROGRAM, ...args]).then(
    (done) => ({ ...done, code: 0 }),
    ({ stdout, stderr, code }) => ({ stdout, stderr, code }),
  );

// Without a llama-server (npm run setup gets one) there is nothing to measure.
test.skipIf(program === "")(
  "the real engine is measured, and the coefficients are what the agent's configuration takes",
  async () => {
    await using folder = await temporaryFolder();
    const file = join(folder.path, "compute.json");
    const run = ["calibrate", "--quick", "--llama-server", program, "--write", file, "-o", "json"];
    const { stdout } = await metalbridge(...run);
    const { samples, table } = JSON.parse(stdout);
    expect(samples).toHaveLength(3);
    expect(table.factor).toBeCloseTo(1, 1);
    expect(JSON.parse(await readFile(file, "utf8"))).toEqual({
      memory: { compute: { factor: table.factor, extraBytes: table.extraBytes } },
    });
  },
);

test("an engine that makes no buffers ends with a code", async () => {
  const { code, stderr } = await metalbridge("calibrate", "--quick", "--llama-server", "/bin/false");
  expect(code).toBe(1);
  expect(stderr).toContain("CalibrationFailed");
});
