import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { createShell } from "./shell.ts";

/** Tools of a folder of their own, and the shell that runs them. */
function shellWith(tools: Readonly<Record<string, string>>, timeoutMs?: number) {
  const folder = mkdtempSync(join(tmpdir(), "mb-shell-"));
  const end = new AbortController();
  onTestFinished(() => {
    end.abort();
    rmSync(folder, { recursive: true, force: true });
  });
  for (const [name, body] of Object.entries(tools)) {
    writeFileSync(join(folder, name), `#!/bin/sh\n${body}\n`);
    chmodSync(join(folder, name), 0o755);
  }
  return { folder, end, run: createShell(`${folder}:/usr/bin:/bin`, end.signal, timeoutMs) };
}

const PARENT = { parent: "echo $PPID" };

const hasExited = (pid: number) =>
  vi.waitFor(() => expect(() => process.kill(pid, 0)).toThrow(/ESRCH/), { timeout: 60_000 });

test("all commands run in one shell, each with its words as they are and its answer whole", async () => {
  const { run } = shellWith({ ...PARENT, words: `printf '%s\\n' "$#" "$@"; read -r line && echo "$line"` });
  const [first, second] = await Promise.all([run("parent", []), run("parent", [])]);
  expect(first).toMatch(/^\d+\n$/);
  expect(second).toBe(first);
  const odd = ["two words", "it's", "$HOME; exit 3", "*"];
  expect(await run("words", odd, { partial: true })).toBe(`4\n${odd.join("\n")}\n`);
});

test("of a command that fails only a partial answer is taken", async () => {
  const { run } = shellWith({ some: "printf some; exit 1", none: "exit 0" });
  expect(await run("some", [])).toBeUndefined();
  expect(await run("some", [], { partial: true })).toBe("some");
  expect(await run("none", [])).toBeUndefined();
  expect(await run("missing", [], { partial: true })).toBeUndefined();
});

test("a command that hangs is killed with its shell, and the next one has another", async () => {
  const { run, folder } = shellWith({ ...PARENT, hangs: `echo $$ >"$0.pid"; exec sleep 600` }, 6_000);
  const before = await run("parent", []);
  expect(await run("hangs", [])).toBeUndefined();
  await hasExited(Number(readFileSync(join(folder, "hangs.pid"), "utf8")));
  expect(await run("parent", [])).not.toBe(before);
});

test("a shell that was killed is replaced at the next command", async () => {
  const { run } = shellWith(PARENT);
  const first = Number(await run("parent", []));
  process.kill(first, "SIGKILL");
  await hasExited(first);
  expect(Number(await run("parent", []))).toBeGreaterThan(0);
});

test("ends with its signal, and starts nothing after it", async () => {
  const { run, end } = shellWith(PARENT);
  const shell = Number(await run("parent", []));
  end.abort();
  await hasExited(shell);
  expect(await run("parent", [])).toBeUndefined();
});
