import { spawn } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { lockStateDir } from "./lock.ts";

function folder(): string {
  return mkdtempSync(join(tmpdir(), "mb-single-"));
}

test("a second agent is refused with the pid of the first, and may start after the first has stopped", async () => {
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
  const script = `const { lockStateDir } = await import(${JSON.stringify(join(import.meta.dirname, "lock.ts"))});
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

test.skipIf(process.platform !== "linux")(
  "the socket of an agent that takes no connection now is not taken over",
  async () => {
    const dir = folder();
    const path = join(dir, "agent.sock");
    const script = `require("node:net").createServer().listen({ path: ${JSON.stringify(path)}, backlog: 1 }, () => console.log("listening"))`;
    const child = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "inherit"] });
    await new Promise((resolve) => child.stdout.once("data", resolve));
    child.kill("SIGSTOP");
    // EAGAIN: its queue is full.
    const waiting: Socket[] = [];
    const isQueued = () =>
      new Promise<boolean>((resolve) => {
        const socket = connect(path, () => resolve(true)).once("error", () => resolve(false));
        waiting.push(socket);
      });
    while (await isQueued());
    await expect(lockStateDir(dir, tmpdir())).rejects.toMatchObject({
      code: "StateDirInUse",
      message: expect.stringContaining("EAGAIN"),
    });
    expect(existsSync(path)).toBe(true);
    for (const socket of waiting) socket.destroy();
    child.kill("SIGKILL");
    await new Promise((resolve) => child.once("exit", resolve));
    rmSync(dir, { recursive: true });
  },
);

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

/** What a killed listener leaves behind: a socket without a listener. */
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

test.skipIf(process.platform !== "linux")(
  "a state folder below one that takes no folders is refused at once",
  async () => {
    await expect(lockStateDir("/proc/nope/metalbridge", tmpdir())).rejects.toMatchObject({
      code: "StateDirUnusable",
      message: expect.stringContaining("/proc/nope/metalbridge cannot be created"),
    });
  },
);

test("a state folder that others may write to is closed to them", async () => {
  const dir = folder();
  chmodSync(dir, 0o777);
  const lock = await lockStateDir(dir, tmpdir());
  expect(statSync(dir).mode & 0o777).toBe(0o755);
  await lock.release();
  rmSync(dir, { recursive: true });
});

test("a link in the temporary folder, in the place of the socket's folder, is refused", async () => {
  const temp = folder();
  const elsewhere = folder();
  symlinkSync(elsewhere, join(temp, `metalbridge-${process.getuid?.() ?? 0}`));
  const dir = join(folder(), "x".repeat(100));
  await expect(lockStateDir(dir, temp)).rejects.toMatchObject({
    code: "StateDirUnusable",
    message: expect.stringContaining("created by another user"),
  });
  rmSync(temp, { recursive: true });
  rmSync(elsewhere, { recursive: true });
});

test.skipIf(process.getuid?.() !== 0)(
  "a folder for the socket that another user made is refused, and an open one of ours is closed (needs root)",
  async () => {
    const temp = folder();
    const place = join(temp, "metalbridge-0");
    mkdirSync(place);
    chmodSync(place, 0o777);
    const dir = join(folder(), "x".repeat(100));
    await (await lockStateDir(dir, temp)).release();
    expect(statSync(place).mode & 0o777).toBe(0o700);
    chownSync(place, 12_345, 12_345);
    await expect(lockStateDir(dir, temp)).rejects.toMatchObject({
      message: expect.stringContaining("uid 12345"),
    });
    rmSync(temp, { recursive: true });
  },
);
