/** Runs a temporary job in the launchd domain of the user, with the plist of an installation and a program that only waits. */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createLaunchctl } from "../../launchd/launchctl/launchctl.ts";
import { type InstallLayout, layoutFor } from "../../launchd/layout/layout.ts";
import { renderAgentPlist } from "../../launchd/plist/agent-plist.ts";
import type { ServiceManager } from "../../launchd/ports.ts";
import { pollUntil } from "../../launchd/wait.ts";
import { LAUNCHD_LABEL } from "../../src/api/group.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { readService } from "../../src/macos/doctor/launchd.ts";
import { createIdentityReader } from "../../src/supervise/identity/identity.ts";
import { killIfSame } from "../../src/supervise/leftovers.ts";
import { createCommand } from "../../src/util/command.ts";
import {
  type Bench,
  failedStep,
  notApplicableStep,
  passedStep,
  type SelftestOutcome,
  unknownStep,
} from "./step.ts";

const START_MS = 15_000;
const LEAVE_MS = 10_000;

/** Uses the folder of the bench as the home folder. An installed agent is not changed. */
export async function checkJob(bench: Bench): Promise<SelftestOutcome> {
  const { folder, path, runPrivately, isReplayed, cleanUp } = bench;
  if (isReplayed) return notApplicableStep("a recording has no launchd");
  const uid = process.getuid?.() ?? 0;
  const installed = await readService(runPrivately, uid);
  if ("unknown" in installed) return unknownStep(installed.unknown);
  const layout = layoutFor({ platform: "darwin", scope: "user", root: "", home: join(folder, "job"), uid });
  const own = uid === 0 ? { ...layout, domain: "system" } : layout;
  const launchctl = createLaunchctl({
    run: createCommand(path),
    clock: systemClock,
    euid: uid,
    layout: own,
    leaveMs: LEAVE_MS,
  });
  const before = await launchctl.observe();
  if (installed.value.found !== undefined || before.at !== "absent" || before.isDisabled)
    return notApplicableStep(`${LAUNCHD_LABEL} is installed or disabled, and is not changed`);
  const children = await writeJob(own);
  cleanUp(() => endChildren(children));
  cleanUp(() => launchctl.unload());
  return runJob(launchctl, children);
}

async function runJob(launchctl: ServiceManager, children: string): Promise<SelftestOutcome> {
  await launchctl.load();
  const first = await startedPid(launchctl, children, 1);
  await launchctl.restart();
  const second = await startedPid(launchctl, children, 2, first);
  if (first === undefined || second === undefined) return failedStep("the job was loaded but did not start");
  await launchctl.unload();
  if ((await launchctl.observe()).at !== "absent") return failedStep("the job is loaded after bootout");
  const { startTimeNow } = createIdentityReader(process.platform);
  const survived = (await pidsIn(children)).filter((pid) => startTimeNow(pid) !== undefined).length;
  return survived === 2
    ? passedStep(`pid ${first}, restarted as ${second}, unloaded; their child processes are still running`)
    : failedStep("child processes of the job were killed with it despite AbandonProcessGroup");
}

/** Resolves when the program of the job has started its `count`th child process. */
async function startedPid(
  launchctl: ServiceManager,
  children: string,
  count: number,
  earlier?: number,
): Promise<number | undefined> {
  let pid: number | undefined;
  const isStarted = await pollUntil(systemClock, START_MS, async () => {
    const job = await launchctl.observe();
    pid = job.at === "loaded" ? job.pid : undefined;
    return pid !== undefined && pid !== earlier && (await pidsIn(children)).length >= count;
  });
  return isStarted ? pid : undefined;
}

/** Resolves with the file to which the program writes the pids of its child processes. */
async function writeJob(layout: InstallLayout): Promise<string> {
  const program = join(layout.prefix, "current", "bin", "node");
  const children = join(layout.prefix, "children");
  for (const file of [layout.definition, layout.crashLog ?? program, program])
    await mkdir(dirname(file), { recursive: true });
  const script = `#!/bin/sh\nsleep 600 &\necho $! >>"${children}"\nexec sleep 600\n`;
  await writeFile(program, script, { mode: 0o755 });
  await writeFile(layout.definition, renderAgentPlist(layout, 0), { mode: 0o644 });
  return children;
}

async function pidsIn(file: string): Promise<readonly number[]> {
  const text = await readFile(file, "utf8").catch(() => "");
  return [...text.matchAll(/^(\d+)\n/gm)].map(([, pid]) => Number(pid));
}

async function endChildren(file: string): Promise<void> {
  const identity = createIdentityReader(process.platform);
  for (const pid of await pidsIn(file)) {
    const startTime = identity.startTimeNow(pid);
    if (startTime !== undefined) await killIfSame(identity, { pid, startTime });
  }
}
