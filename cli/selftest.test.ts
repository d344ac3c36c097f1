/** selftest as users run it: on a recorded Mac, on this machine, with broken tools, and interrupted. */
import { chmod, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, it, vi } from "vitest";
import { startDoctorReplay } from "../test/bed/doctor-replay.ts";
import { M4_MAX, type Replay } from "../test/bed/replay.ts";
import { runProgram, startProgram } from "../test/cli/program.ts";
import { findLlamaServer } from "../test/fixtures/llama-server.ts";
import type { SelftestResult } from "./selftest/step.ts";

const llamaServer = findLlamaServer();
const engine = llamaServer === undefined ? [] : ["--llama-server", llamaServer];

/** A recorded Mac with what selftest asks beyond doctor: assertions that live as long as their caffeinate. */
async function startMac(): Promise<Replay> {
  const mac = await startDoctorReplay(M4_MAX, { "dscl *": "UniqueID: 70\nPrimaryGroupID: 70" });
  const [bin = ""] = mac.path.split(":");
  const write = async (name: string, body: string): Promise<void> => {
    await writeFile(path.join(bin, name), `#!/bin/sh\n${body}\n`);
    await chmod(path.join(bin, name), 0o755);
  };
  await rename(path.join(bin, "pmset"), path.join(bin, "pmset.recorded"));
  await write("caffeinate", `echo $$ >${bin}/awake; exec sleep 600`);
  await write(
    "pmset",
    [
      `[ "$*" = "-g assertions" ] || exec ${bin}/pmset.recorded "$@"`,
      'echo "   PreventUserIdleSystemSleep    1"',
      `pid=$(cat ${bin}/awake) && kill -0 $pid && echo "   pid $pid(caffeinate): [0x1] 00:00:00 PreventUserIdleSystemSleep"`,
      "exit 0",
    ].join("\n"),
  );
  await mac.setKey("kern.bootsessionuuid", "6F2C1A52-8A3B-4B6E-9B1D-2F4E6A7C8D90");
  return mac;
}

const selftest = (args: readonly string[], env: Readonly<Record<string, string>>) =>
  runProgram(["selftest", ...args], { env });
const onMac = (mac: Replay) => ({ PATH: `${mac.path}:${process.env.PATH}` });
const statusesOf = (stdout: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    (JSON.parse(stdout) as { results: SelftestResult[] }).results.map(({ name, status }) => [name, status]),
  );

async function temporary(): Promise<AsyncDisposable & { readonly folder: string }> {
  const folder = await mkdtemp(path.join(tmpdir(), "mb-selftest-"));
  return { folder, [Symbol.asyncDispose]: () => rm(folder, { recursive: true }) };
}

describe("selftest on a recorded Mac", () => {
  it("passes every step that a recording can, and records the machine", async () => {
    await using mac = await startMac();
    await using temp = await temporary();
    const end = await selftest(
      ["--platform", "darwin", "--record", temp.folder, "-o", "json", ...engine],
      onMac(mac),
    );
    const statuses = statusesOf(end.stdout);
    const notOk = Object.entries(statuses).filter(([, status]) => status !== "ok");
    const withoutEngine =
      llamaServer === undefined ? ["llama-server", "engine", "engine-addresses", "footprint", "buffers"] : [];
    expect(Object.fromEntries(notOk)).toEqual({
      // Recorded on no machine, or a question to the machine that this runs on.
      "crash-reports": "unknown",
      "ephemeral-ports": "unknown",
      "launchd-job": "notApplicable",
      metal: "notApplicable",
      "gpu-budget": "notApplicable",
      omlx: "notApplicable",
      ...Object.fromEntries(withoutEngine.map((name) => [name, "notApplicable"])),
    });
    expect(end).toMatchObject({ code: 3, stderr: "" });
    expect(await readdir(temp.folder)).toEqual([M4_MAX]);
    const sysctl = await readFile(path.join(temp.folder, M4_MAX, "sysctl.txt"), "utf8");
    expect(sysctl).toContain("kern.bootsessionuuid: 00000000-0000-4000-8000-");
  });

  it("names what does not hold, with the fact that was expected", async () => {
    await using mac = await startMac();
    await mac.breakTool("fdesetup", "garbage");
    await mac.breakTool("caffeinate", "missing");
    await mac.breakTool("vm_stat", "silent");
    const end = await selftest(["--platform", "darwin"], onMac(mac));
    expect(end.code).toBe(1);
    expect(end.stdout).toMatch(/^failed {3}file-vault +the output of fdesetup status is not understood$/m);
    expect(end.stdout).toMatch(/^ +expected: `fdesetup status` shows FileVault$/m);
    expect(end.stdout).toMatch(/^failed {3}awake +spawn caffeinate ENOENT$/m);
    expect(end.stdout).toMatch(/^failed {3}vm-stat /m);
    expect(end.stdout).toMatch(/^3 failed, \d+ unknown/m);
  });
});

describe.skipIf(process.platform !== "linux")("selftest on this machine", () => {
  it("proves shim, FIFOs, adoption and the engine natively, and leaves nothing behind", async () => {
    await using temp = await temporary();
    const end = await selftest(["-o", "json", ...engine], { TMPDIR: temp.folder });
    const { adoption, fifo, mark, identity, activity, bind, ...rest } = statusesOf(end.stdout);
    expect({ adoption, fifo, mark, identity, activity }).toEqual({
      adoption: "ok",
      fifo: "ok",
      mark: "ok",
      identity: "ok",
      activity: "ok",
    });
    expect(["ok", "notApplicable"]).toContain(bind);
    if (llamaServer !== undefined)
      expect(rest).toMatchObject({ engine: "ok", footprint: "ok", buffers: "ok" });
    expect(Object.keys(rest)).not.toContain("file-vault");
    expect(end.code).toBe(0);
    expect(await readdir(temp.folder)).toEqual([]);
    expect(await startedIn(temp.folder)).toEqual([]);
  });

  it("ends and removes what it started after Ctrl-C", async () => {
    await using temp = await temporary();
    await using program = startProgram(["selftest"], { env: { TMPDIR: temp.folder } });
    await vi.waitFor(async () => expect((await startedIn(temp.folder)).length).toBeGreaterThan(0), {
      timeout: 60_000,
      interval: 5,
    });
    program.child.kill("SIGINT");
    expect((await program.ended).code).toBe(130);
    expect(await readdir(temp.folder)).toEqual([]);
    expect(await startedIn(temp.folder)).toEqual([]);
  });

  it("records only Macs", async () => {
    const end = await selftest(["--record", "/tmp"], {});
    expect(end.code).toBe(1);
    expect(end.stderr).toContain("RecordingFailed");
  });
});

/** Processes whose environment or command line names the folder, without the program that was given it. */
async function startedIn(folder: string): Promise<readonly string[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid) => {
      const text = await readFile(`/proc/${pid}/environ`, "utf8").catch(() => "");
      return text.includes(`METALBRIDGE_RUN_DIR=${folder}`) ? [pid] : [];
    }),
  );
  return found.flat();
}
