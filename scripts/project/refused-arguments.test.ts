/** Arguments that developer commands refuse. */
import { spawnSync } from "node:child_process";
import path from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../local/package-root.ts";

test.each([
  [
    ["--only", "foo"],
    "interop: --only foo: unknown\n  → choose one of llamacpp, vllm, clients, open-webui, envoy-ai-gateway\n",
  ],
  [
    ["--fast"],
    /^interop: Unknown option '--fast'.*\n {2}→ npm run interop -- \[--only NAME\] \[--write\]\n$/s,
  ],
])("refuses %j, and says what is accepted", (args, message) => {
  const program = path.join(packageRoot(), "test", "interop", "main.ts");
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], { encoding: "utf8" });
  expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
  expect(stderr).toEqual(typeof message === "string" ? message : expect.stringMatching(message));
});

test("release:prepare refuses an unknown flag without a stack trace", () => {
  const program = path.join(packageRoot(), "scripts", "release", "prepare.ts");
  const { status, stderr } = spawnSync(process.execPath, [program, "--fast"], { encoding: "utf8" });
  expect(status).toBe(2);
  expect(stderr).toMatch(/^release: Unknown option '--fast'/);
  expect(stderr).not.toContain("    at ");
});
