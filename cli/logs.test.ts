import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, chmodSync, mkdirSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { rotateLog } from "../src/supervise/log-rotation.ts";
import { runVerb, startProgram } from "../test/cli/program.ts";
import { temporaryFolder } from "../test/fixtures/temporary-folder.ts";

async function stateFolder() {
  const folder = await temporaryFolder();
  const state = path.join(folder.path, "state dir");
  const dir = path.join(state, "engines", "u1");
  mkdirSync(path.join(state, "desired"), { recursive: true });
  mkdirSync(dir, { recursive: true });
  const desired = {
    metadata: { name: "chat-0-abc", namespace: "team" },
    spec: { template: { serviceName: "chat" } },
  };
  writeFileSync(path.join(state, "desired", "u1.json"), JSON.stringify(desired));
  return {
    ...folder,
    state,
    dir,
    log: path.join(dir, "log"),
    [Symbol.asyncDispose]: folder[Symbol.asyncDispose],
  };
}

/** Root may read everything, so the program runs as another user where possible. */
const asNobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
const program = path.join(import.meta.dirname, "metalbridge.mjs");
const canBeNobody =
  spawnSync("setpriv", [...asNobody, process.execPath, program, "--version"], { env: {} }).status === 0;

const numbered = (from: number, count: number) =>
  Array.from({ length: count }, (_, index) => `line ${from + index}\n`).join("");

test("a log on this machine is printed without asking any cluster", async () => {
  await using state = await stateFolder();
  writeFileSync(path.join(state.dir, "log.1"), numbered(0, 3));
  writeFileSync(state.log, numbered(3, 2));
  const show = (...args: string[]) => runVerb(["logs", ...args, "--state-dir", state.state]);
  expect(await show("chat-0-abc")).toEqual({ code: 0, stdout: numbered(3, 2), stderr: "" });
  expect(await show("irep/chat-0-abc", "-n", "team", "--all")).toMatchObject({
    code: 0,
    stdout: numbered(0, 5),
  });
  expect(await show("chat", "--tail", "3")).toMatchObject({ code: 0, stdout: numbered(2, 3) });
  expect(await show("chat", "--tail=0")).toMatchObject({ code: 0, stdout: "" });
});

test("following continues through rotations, loses and repeats nothing, and ends with Ctrl-C", async () => {
  await using state = await stateFolder();
  writeFileSync(state.log, numbered(0, 5));
  await using program = startProgram(["logs", "chat-0-abc", "-f", "--tail", "1", "--state-dir", state.state]);
  await program.until(/^line 4$/m);
  let written = 5;
  for (let round = 0; round < 20; round += 1) {
    appendFileSync(state.log, numbered(written, 50));
    written += 50;
    // What the reader has had no time for must survive in the copy, so the copy is whole but for its first bytes.
    if (round % 5 === 4) {
      await program.until(new RegExp(`^line ${written - 40}$`, "m"));
      rotateLog(state.dir, { maxBytes: 300, keep: 3 });
    }
  }
  await program.until(new RegExp(`^line ${written - 1}$`, "m"));
  program.child.kill("SIGINT");
  expect(await program.ended).toEqual({ code: 130, stdout: numbered(4, written - 4), stderr: "" });
});

test("following a log waits for the engine's start, and ends with the replica", async () => {
  await using state = await stateFolder();
  rmSync(state.dir, { recursive: true });
  await using program = startProgram(["logs", "chat", "-f", "--state-dir", state.state]);
  await expect.poll(() => program.stderr(), { timeout: 60_000 }).toMatch(/not been started yet/);
  mkdirSync(state.dir);
  writeFileSync(state.log, "first\n");
  await program.until(/^first$/m);
  rmSync(state.dir, { recursive: true });
  expect(await program.ended).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("has left this host"),
  });
});

test("the end of a log of 2 TB is there at once, and its bytes are not touched", async () => {
  await using state = await stateFolder();
  writeFileSync(state.log, "");
  truncateSync(state.log, 2 * 1024 ** 4);
  appendFileSync(state.log, Buffer.from([0x0a, 0xff, 0xfe, 0x1b, 0x0a, 0x00, 0x0a]));
  const child = spawn(process.execPath, [program, "logs", "chat", "--tail", "2", "--state-dir", state.state]);
  const chunks: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
  // To read all of it would take longer than a test may.
  expect(await once(child, "close")).toEqual([0, null]);
  expect([...Buffer.concat(chunks)]).toEqual([0xff, 0xfe, 0x1b, 0x0a, 0x00, 0x0a]);
});

test("following stops when the reader closes the pipe", async () => {
  await using state = await stateFolder();
  writeFileSync(state.log, numbered(0, 200_000));
  await using program = startProgram(["logs", "chat", "-f", "--state-dir", state.state]);
  await program.until(/line 0/);
  program.child.stdout?.destroy();
  appendFileSync(state.log, "one more\n");
  expect((await program.ended).code).toBe(0);
});

test("an engine that was never started has no log", async () => {
  await using state = await stateFolder();
  rmSync(state.dir, { recursive: true });
  const { code, stderr } = await runVerb(["logs", "chat", "--state-dir", state.state]);
  expect(code).toBe(1);
  expect(stderr).toMatch(
    /^LogNotFound: the engine of team\/chat-0-abc has not been started[\s\S]*describe chat-0-abc -n team/,
  );
});

test("a replica that is not here, and no cluster to ask", async () => {
  await using state = await stateFolder();
  for (const kubeconfig of [undefined, path.join(state.path, "nothing")]) {
    const { code, stderr } = await runVerb(["logs", "other", "--state-dir", state.state], { kubeconfig });
    expect(code).toBe(1);
    expect(stderr).toMatch(/^LogNotFound: .*has no log of other, and the cluster cannot be read: Kubeconfig/);
    expect(stderr).toContain("--state-dir");
  }
});

test.skipIf(!canBeNobody)(
  "a log of another user is not read, and it is said who may (needs root and setpriv)",
  async () => {
    await using state = await stateFolder();
    writeFileSync(state.log, "secret\n");
    const look = () =>
      spawnSync(
        "setpriv",
        [...asNobody, process.execPath, program, "logs", "chat", "--state-dir", state.state],
        {
          encoding: "utf8",
          env: { HOME: "/nonexistent" },
        },
      );
    chmodSync(state.path, 0o755);
    for (const [closed, mode] of [
      [state.state, 0o700],
      [state.log, 0o600],
    ] as const) {
      chmodSync(closed, mode);
      const { status, stdout, stderr } = look();
      expect([status, stdout]).toEqual([1, ""]);
      expect(stderr).toMatch(
        /^LogUnreadable: EACCES[\s\S]*sudo metalbridge logs chat\S* --state-dir '.*state dir'\n$/,
      );
      chmodSync(closed, 0o755);
    }
    expect(look()).toMatchObject({ status: 0, stdout: "secret\n" });
  },
);

test.each([
  [["chat", "--tail", "-1"]],
  [["chat", "--tail", "many"]],
  [["chat", "--tail", "5", "--all"]],
  [["../../etc/passwd"]],
  [["chat", "-n", "Team"]],
  [[]],
  [["chat", "other"]],
])("logs %j is refused with exit code 2", async (args) => {
  const { code, stderr } = await runVerb(["logs", ...args]);
  expect(code).toBe(2);
  expect(stderr).toMatch(/error: .*\n.*--help/);
});
