import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { shellWord } from "./shell-word.ts";

test("plain paths stay as they are", () => {
  expect(shellWord("/srv/a-b_1.2/kubeconfig")).toBe("/srv/a-b_1.2/kubeconfig");
});

test.for(["/srv/ö ther dir", "it's", "$HOME", "", "a;b", "~/x"])("the shell reads %j back", (text) => {
  const read = execFileSync("/bin/sh", ["-c", `printf %s ${shellWord(text)}`], { encoding: "utf8" });
  expect(read).toBe(text);
});
