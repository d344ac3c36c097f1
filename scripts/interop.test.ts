/** `npm run interop` with arguments that try no engine. */
import { spawnSync } from "node:child_process";
import path from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../local/package-root.ts";

test("an engine that is not tried is refused, and those that are tried are listed", () => {
  const program = path.join(packageRoot(), "test", "interop", "main.ts");
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, "--only", "foo"], {
    encoding: "utf8",
  });
  expect({ status, stdout, stderr }).toEqual({
    status: 1,
    stdout: "",
    stderr: "interop: --only foo: no such engine; choose one of llamacpp, vllm\n",
  });
});
