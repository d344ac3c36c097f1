/** The throwaway job under the replayed launchd, which really runs it. */
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { loadAgentConfig } from "../../agent/config/load.ts";
import { isLiving } from "../../src/supervise/fixtures/run.ts";
import { createRunTool } from "../../src/util/command.ts";
import { startLaunchd } from "../../test/bed/launchd/launchd.ts";
import { plutil } from "../../test/bed/launchd/plutil.ts";
import { type Answer, type Call, replayCommands } from "../../test/bed/launchd/replayed-commands.ts";
import { checkJob } from "./job.ts";
import { runSteps, type SelftestResult } from "./step.ts";

type Change = (call: Call, launchctl: (call: Call) => Promise<Answer>) => Promise<Answer>;

/** Resolves with the outcome and the labels that are loaded afterwards. */
async function runStep(change: Change = (call, launchctl) => launchctl(call)) {
  const launchd = startLaunchd();
  const launchctl = async (call: Call) => launchd.launchctl(call);
  await using commands = await replayCommands({ launchctl: (call) => change(call, launchctl), plutil });
  const folder = await mkdtemp(join(tmpdir(), "mb-job-"));
  const path = `${commands.bin}:/usr/bin:/bin`;
  const run = createRunTool(path);
  const config = loadAgentConfig({ file: undefined, flags: { platform: "darwin" } });
  const bench = { config, run, runPrivately: run, path, env: {}, isReplayed: false, folder };
  const steps = [
    { name: "launchd-job", proves: "", platforms: ["darwin" as const], run: checkJob, limitMs: 120_000 },
  ];
  const [result] = await runSteps(steps, bench, { stop: new AbortController().signal, onResult: () => {} });
  const labels = launchd.labels();
  const left = await sleepersOf(folder);
  await launchd.stopAll();
  await rm(folder, { recursive: true });
  return { result: result as SelftestResult, labels, left, calls: commands.calls };
}

/** Pids that a job wrote down and that live. */
async function sleepersOf(folder: string): Promise<readonly string[]> {
  const files = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith("/children"));
  const texts = await Promise.all(files.map((name) => readFile(join(folder, name), "utf8")));
  const pids = texts.join("").trim().split("\n");
  // A killed process takes a moment to be gone.
  const living = () => pids.filter((pid) => isLiving(Number(pid)));
  await vi.waitFor(() => expect(living()).toEqual([]), 60_000).catch(() => {});
  return living();
}

it("loads, restarts and unloads its own job, and leaves nothing behind", async () => {
  const { result, labels, left } = await runStep();
  expect(result).toMatchObject({ status: "ok" });
  expect({ labels, left }).toEqual({ labels: [], left: [] });
});

it("leaves an agent that is installed alone", async () => {
  const printed = "x = {\n\tstate = running\n\tpid = 7\n}\n";
  const { result, calls } = await runStep(async (call, launchctl) =>
    call.args[0] === "print" ? { out: printed } : launchctl(call),
  );
  expect(result).toMatchObject({ status: "notApplicable" });
  expect(calls.filter((call) => /bootstrap|bootout|kickstart|enable /.test(call))).toEqual([]);
});

it("fails where launchd refuses the job", async () => {
  const refuses: Change = async (call, launchctl) =>
    call.args[0] === "bootstrap"
      ? { code: 125, err: "Domain does not support specified action" }
      : launchctl(call);
  const { result, labels } = await runStep(refuses);
  expect(result).toMatchObject({ status: "failed", found: expect.stringContaining("ServiceLoadFailed") });
  expect(labels).toEqual([]);
});
