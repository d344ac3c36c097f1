import { execFileSync, spawnSync } from "node:child_process";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createJsonLog } from "./json-log.ts";
import { openLogFile } from "./log-file.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), "mb-log-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));
const file = () => path.join(folder, "logs", "agent.log");
const read = (end = "") => readFileSync(`${file()}${end}`, "utf8");
const LINE = `${"x".repeat(99)}\n`;

test("a file that would become too large is moved aside, and only so many are kept", () => {
  const log = openLogFile(file(), { maxBytes: 1_000, keep: 2 });
  for (let index = 0; index < 45; index += 1) log.write(LINE);
  expect(readdirSync(path.dirname(file())).sort()).toEqual(["agent.log", "agent.log.1", "agent.log.2"]);
  expect([read(), read(".1"), read(".2")].map((text) => text.length)).toEqual([500, 1_000, 1_000]);
});

test("with keep 0 nothing is kept, and a line larger than the limit is written whole", () => {
  const log = openLogFile(file(), { maxBytes: 150, keep: 0 });
  log.write(LINE);
  log.write("y".repeat(500));
  expect(readdirSync(path.dirname(file()))).toEqual(["agent.log"]);
  expect(read()).toBe("y".repeat(500));
});

test("a file that was moved or removed is made again with the next line", () => {
  const log = openLogFile(file(), { maxBytes: 10_000, keep: 2 });
  log.write("a\n");
  renameSync(file(), path.join(folder, "moved"));
  log.write("b\n");
  expect(read()).toBe("b\n");
  rmSync(path.dirname(file()), { recursive: true });
  log.write("lost\n");
  mkdirSync(path.dirname(file()));
  log.write("c\n");
  expect(read()).toBe("c\n");
});

test("a full disk ends no agent, and the log continues when there is room", () => {
  if (process.geteuid?.() !== 0) return;
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=16k", "tmpfs", folder]);
  try {
    const log = openLogFile(file(), { maxBytes: 1 << 20, keep: 1 });
    for (let index = 0; index < 400; index += 1) log.write(LINE);
    const full = read().length;
    expect(full).toBeLessThanOrEqual(16_384);
    execFileSync("mount", ["-o", "remount,size=1m", folder]);
    log.write(LINE);
    expect(read().length).toBeGreaterThan(full);
  } finally {
    execFileSync("umount", ["-l", folder]);
  }
});

test("pino writes whole lines to it, with credentials cut out", () => {
  const log = createJsonLog("info", { host: "mini-1" }, openLogFile(file(), { maxBytes: 10_000, keep: 1 }));
  log.info({ token: "secret" }, "hello");
  expect(JSON.parse(read())).toMatchObject({
    level: "info",
    host: "mini-1",
    token: "[hidden]",
    msg: "hello",
  });
});

test("a crash log that has grown is emptied at start, a small one is kept", () => {
  const crash = path.join(folder, "crash.log");
  const start = (bytes: number) => {
    writeFileSync(crash, "z".repeat(bytes));
    const script = `import { trimCrashLog } from ${JSON.stringify(path.join(import.meta.dirname, "log-file.ts"))}; trimCrashLog(1000);`;
    spawnSync("sh", ["-c", `exec "${process.execPath}" --input-type=module -e '${script}' 2>>"${crash}"`]);
    return readFileSync(crash, "utf8").replace(/^\(node:[\s\S]*/m, "").length;
  };
  expect(start(1_500)).toBe(0);
  expect(start(500)).toBe(500);
});

test("a path that cannot be opened is found at start", () => {
  if (process.geteuid?.() === 0) {
    writeFileSync(path.join(folder, "file"), "");
    expect(() => openLogFile(path.join(folder, "file", "agent.log"), { maxBytes: 1, keep: 0 })).toThrow();
  } else {
    chmodSync(folder, 0o500);
    expect(() => openLogFile(file(), { maxBytes: 1, keep: 0 })).toThrow();
  }
});
