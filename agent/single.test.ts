import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { lockStateDir } from "./single.ts";

function folder(): string {
  return mkdtempSync(join(tmpdir(), "mb-single-"));
}

test("a second agent is refused with the pid of the first, and may begin after it has ended", async () => {
  const dir = folder();
  const first = await lockStateDir(dir, tmpdir());
  await expect(lockStateDir(dir, tmpdir())).rejects.toMatchObject({
    code: "StateDirInUse",
    message: expect.stringContaining(`pid ${process.pid}`),
  });
  await first.release();
  await (await lockStateDir(dir, tmpdir())).release();
  rmSync(dir, { recursive: true });
});

test("the socket of a killed agent is taken over", async () => {
  const dir = folder();
  const script = `const { lockStateDir } = await import(${JSON.stringify(join(import.meta.dirname, "single.ts"))});
    await lockStateDir(${JSON.stringify(dir)}, "/tmp"); console.log("locked"); setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await new Promise((resolve) => child.stdout.once("data", resolve));
  await expect(lockStateDir(dir, tmpdir())).rejects.toMatchObject({
    message: expect.stringContaining(`pid ${child.pid}`),
  });
  child.kill("SIGKILL");
  await new Promise((resolve) => child.once("exit", resolve));
  expect(existsSync(join(dir, "agent.sock"))).toBe(true);
  await (await lockStateDir(dir, tmpdir())).release();
  rmSync(dir, { recursive: true });
});

test("of many that find a dead socket at once, one begins and the others are refused", async () => {
  for (let round = 0; round < 20; round += 1) {
    const dir = folder();
    await leaveDeadSocket(join(dir, "agent.sock"));
    const results = await Promise.allSettled(Array.from({ length: 8 }, () => lockStateDir(dir, tmpdir())));
    const locks = results.filter((result) => result.status === "fulfilled");
    expect(locks).toHaveLength(1);
    for (const result of results) {
      if (result.status === "rejected") expect(result.reason).toMatchObject({ code: "StateDirInUse" });
    }
    await expect(lockStateDir(dir, tmpdir())).rejects.toMatchObject({ code: "StateDirInUse" });
    await locks[0]?.value.release();
    rmSync(dir, { recursive: true });
  }
});

/** What a listener that was killed leaves: a socket nobody answers on. */
async function leaveDeadSocket(path: string): Promise<void> {
  const script = `require("node:net").createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, "SIGKILL"))`;
  const child = spawn(process.execPath, ["-e", script], { stdio: "ignore" });
  await new Promise((resolve) => child.once("exit", resolve));
}

test("a path that is too long for a socket still locks, through the temporary folder", async () => {
  const dir = folder();
  const deep = join(dir, "x".repeat(90));
  const first = await lockStateDir(deep, dir);
  expect(Buffer.byteLength(first.socketPath)).toBeLessThanOrEqual(103);
  await expect(lockStateDir(deep, dir)).rejects.toMatchObject({ code: "StateDirInUse" });
  await first.release();
  await expect(lockStateDir(deep, join(dir, "y".repeat(90)))).rejects.toMatchObject({
    code: "StateDirUnusable",
  });
  rmSync(dir, { recursive: true });
});

test("a state folder that cannot be made is a code", async () => {
  const dir = folder();
  writeFileSync(join(dir, "file"), "");
  await expect(lockStateDir(join(dir, "file", "state"), tmpdir())).rejects.toMatchObject({
    code: "StateDirUnusable",
  });
  rmSync(dir, { recursive: true });
});
