/** `npm run image` with arguments that build nothing. */
import { spawnSync } from "node:child_process";
import path from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../local/package-root.ts";

function image(...args: string[]) {
  const program = path.join(packageRoot(), "scripts", "image.ts");
  return spawnSync(process.execPath, [program, ...args], { encoding: "utf8" });
}

test.each(["--help", "-h"])("%s prints how it is used", (flag) => {
  expect(image(flag)).toMatchObject({
    status: 0,
    stdout: expect.stringMatching(/^Usage: npm run image -- HOST\/REPOSITORY:TAG/),
    stderr: "",
  });
});

test.each([
  [["--bogus"], 2, /^image: Unknown option '--bogus'.*\n {2}→ Usage: /],
  [["a.example/b:1", "c"], 1, /^image: name one image.*\n {2}→ Usage: /],
  [["org/metalbridge:1"], 1, /^image: "org\/metalbridge:1" is not an image reference\n {2}→ write HOST/],
])("%j is refused without a stack", (args, exitCode, message) => {
  const { status, stdout, stderr } = image(...args);
  expect({ status, stdout }).toEqual({ status: exitCode, stdout: "" });
  expect(stderr).toMatch(message);
  expect(stderr).not.toMatch(/^ +at /m);
});
