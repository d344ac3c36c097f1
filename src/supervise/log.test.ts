import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { until } from "../../test/bed/until.ts";
import { makeFolder, processPorts, runFolder, shell } from "./fixtures/run.ts";
import { rotateLog } from "./log-rotation.ts";
import { readLogTail } from "./log-tail.ts";
import { createSupervisor } from "./supervisor.ts";

describe("the tail of a log", () => {
  it("the tail of a log consists of complete lines from the end", async () => {
    await using folder = runFolder();
    const dir = makeFolder(folder.dir());
    writeFileSync(join(dir, "log"), "one\ntwo\nthree\n");
    expect(await readLogTail(dir, 8)).toBe("three\n");
    expect(await readLogTail(dir, 1000)).toBe("one\ntwo\nthree\n");
    expect(await readLogTail(dir, 3)).toBe("ee\n");
  });

  it("the tail of a log that was just rotated continues in the previous file", async () => {
    await using folder = runFolder();
    const dir = makeFolder(folder.dir());
    writeFileSync(join(dir, "log"), "one\ntwo\n");
    rotateLog(dir, { maxBytes: 1, keep: 1 });
    writeFileSync(join(dir, "log.1"), "one\ntwo\n");
    writeFileSync(join(dir, "log"), "three\n", { flag: "a" });
    expect(await readLogTail(dir, 11)).toBe("two\nthree\n");
    expect(await readLogTail(dir, 1000)).toBe("one\ntwo\nthree\n");
  });

  it("the tail of a missing log is empty", async () => {
    await using folder = runFolder();
    expect(await readLogTail(folder.dir(), 100)).toBe("");
  });

  it("reading the tail of a 20 GB log reads only the bytes of the tail", async () => {
    await using folder = runFolder();
    const dir = makeFolder(folder.dir());
    writeFileSync(join(dir, "log"), "");
    truncateSync(join(dir, "log"), 20e9);
    writeFileSync(join(dir, "log"), "\nthe end\n", { flag: "a" });
    expect(await readLogTail(dir, 9)).toBe("the end\n");
  });
});

describe("rotation", () => {
  it("a log is rotated while its engine runs", async () => {
    await using folder = runFolder();
    const ports = processPorts({ sweepMs: 20, logLimits: { maxBytes: 100, keep: 1 } });
    const script = "while :; do echo a line of the log; sleep 0.01; done";
    const engine = await createSupervisor(ports).start(folder.dir(), shell(script), () => {});
    await until(() => expect(engine.state().at).toBe("running"));
    await until(() => expect(existsSync(join(engine.dir, "log.1"))).toBe(true));
    await until(async () => expect(await engine.logTail(40)).toContain("a line of the log\n"));
    await engine.signal("KILL");
    await until(() => expect(engine.state().at).toBe("gone"));
  });

  it("only a log above the limit is rotated, and the configured number of files is kept", async () => {
    await using folder = runFolder();
    const dir = makeFolder(folder.dir());
    const log = join(dir, "log");
    for (const text of ["first\n", "second\n", "third\n", "fourth\n"]) {
      writeFileSync(log, text, { flag: "a" });
      expect(rotateLog(dir, { maxBytes: 100, keep: 2 }).rotated).toBe(false);
      expect(rotateLog(dir, { maxBytes: 3, keep: 2 })).toMatchObject({ rotated: true });
    }
    expect(statSync(log).size).toBe(0);
    expect(readFileSync(`${log}.1`, "utf8")).toBe("th\n");
    expect(readFileSync(`${log}.2`, "utf8")).toBe("third\n");
    expect(existsSync(`${log}.3`)).toBe(false);
  });

  it("rotation keeps the configured number of files of at most twice the limit, no matter how much is written between two checks", async () => {
    await using folder = runFolder();
    let runs = 0;
    const writes = fc.array(fc.nat(800), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(writes, fc.integer({ min: 10, max: 200 }), fc.nat(3), (given, maxBytes, keep) => {
        runs += 1;
        const dir = makeFolder(folder.dir(`engine-${runs}`));
        for (const bytes of given) {
          writeFileSync(join(dir, "log"), "x".repeat(bytes), { flag: "a" });
          rotateLog(dir, { maxBytes, keep });
          const sizes = readdirSync(dir).map((name) => statSync(join(dir, name)).size);
          expect(statSync(join(dir, "log")).size).toBeLessThanOrEqual(maxBytes);
          expect(sizes.length).toBeLessThanOrEqual(1 + keep);
          expect(Math.max(...sizes)).toBeLessThanOrEqual(2 * maxBytes);
        }
      }),
      { numRuns: 40 },
    );
  });

  it("rotation loses nothing of a log that grew slightly over its limit between two checks", async () => {
    await using folder = runFolder();
    const dir = makeFolder(folder.dir());
    const text = "one line of it\n".repeat(100);
    writeFileSync(join(dir, "log"), text);
    expect(rotateLog(dir, { maxBytes: 1_000, keep: 1 })).toEqual({ rotated: true, lostBytes: 0 });
    expect(readFileSync(join(dir, "log.1"), "utf8")).toBe(text);
  });

  it("rotation loses no line of an engine that writes occasionally, and leaves no hole in the file", async () => {
    await using folder = runFolder();
    const dir = makeFolder(folder.dir());
    const fd = openSync(join(dir, "log"), "a");
    const script =
      'i=0; while [ $i -lt 400 ]; do echo "line $i"; i=$((i+1)); [ $((i % 20)) = 0 ] && sleep 0.01; done';
    const writer = spawn("/bin/sh", ["-c", script], { stdio: ["ignore", fd, fd] });
    const kept: string[] = [];
    const ended = once(writer, "exit");
    let done = false;
    ended.then(() => {
      done = true;
    });
    while (!done) {
      if (rotateLog(dir, { maxBytes: 300, keep: 1 }).rotated)
        kept.push(readFileSync(join(dir, "log.1"), "utf8"));
      await new Promise((resolve) => setImmediate(resolve));
    }
    kept.push(readFileSync(join(dir, "log"), "utf8"));
    const lines = kept.join("").split("\n");
    expect(kept.join("")).not.toContain("\0");
    expect(lines.at(-2)).toBe("line 399");
    expect(kept.length).toBeGreaterThan(2);
  });

  it("rotation does not keep copying when an engine writes faster than the copy", async () => {
    await using folder = runFolder();
    const dir = makeFolder(folder.dir());
    const log = join(dir, "log");
    const fd = openSync(log, "a");
    const writer = spawn("head", ["-c", "2G", "/dev/zero"], { stdio: ["ignore", fd, "ignore"] });
    const ended = once(writer, "exit");
    await until(() => expect(statSync(log).size).toBeGreaterThan(0));
    rotateLog(dir, { maxBytes: 1, keep: 1 });
    expect(statSync(`${log}.1`).size).toBeLessThanOrEqual(2);
    writer.kill("SIGKILL");
    await ended;
    closeSync(fd);
  });

  it("rotation copies only the end of a 20 GB log", async () => {
    await using folder = runFolder();
    const dir = makeFolder(folder.dir());
    const log = join(dir, "log");
    writeFileSync(log, "");
    truncateSync(log, 20e9);
    writeFileSync(log, "the end\n", { flag: "a" });
    const result = rotateLog(dir, { maxBytes: 1_000, keep: 3 });
    expect(result).toEqual({ rotated: true, lostBytes: 20e9 + 8 - 1_000 });
    expect(readFileSync(`${log}.1`, "utf8").endsWith("the end\n")).toBe(true);
    expect(statSync(log).size).toBe(0);
  });

  it("a log is truncated even if the copy cannot be written", async () => {
    await using folder = runFolder();
    const dir = makeFolder(folder.dir());
    writeFileSync(join(dir, "log"), "x".repeat(100));
    makeFolder(join(dir, "log.tmp"));
    expect(rotateLog(dir, { maxBytes: 10, keep: 1 })).toEqual({ rotated: true, lostBytes: 100 });
    expect(statSync(join(dir, "log")).size).toBe(0);
  });
});
