/** Checks that every macOS tool that Metalbridge runs works, and that its output can be parsed. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { createHostReader, readBootId } from "../../agent/host/reader.ts";
import { createDsclAccounts } from "../../launchd/account/dscl.ts";
import { valueOfReading } from "../../src/doctor/readings.ts";
import { availableBytes, parseVmStat } from "../../src/macos/parse.ts";
import { capacityWithPurging } from "../../src/macos/volume.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import { createCommand, type RunCommand, type RunTool } from "../../src/util/command.ts";
import { type DarwinTools, darwinReadings } from "../doctor/darwin.ts";
import { findEngines } from "../doctor/engines.ts";
import { tryReach } from "../doctor/reach.ts";
import { checkJob } from "./job.ts";
import {
  type Bench,
  failedStep,
  interpretReading,
  passedStep,
  type SelftestOutcome,
  type SelftestStep,
  unknownStep,
} from "./step.ts";

/** Maximum relative difference between two readings, because other programs run in between. */
const MEMORY_PART = 0.25;

/** launchd may take 10 s to stop a job. */
const LIMIT_MS = 30_000;

type ToolStep = readonly [name: string, proves: string, run: SelftestStep["run"]];

const steps: readonly ToolStep[] = [
  ["machine", "`sysctl`, `sw_vers` and `ioreg` describe the machine", checkMachine],
  ["memory", "`sysctl` has available memory, swap and memory pressure", checkMemory],
  ["vm-stat", "`vm_stat` and the counters of `sysctl` agree on available memory", checkVmStat],
  ["boot", "`kern.bootsessionuuid` identifies the boot", checkBoot],
  ["power", "`pmset -g` shows sleep, restart and Power Nap", shows("power")],
  ["power-source", "`pmset -g batt` shows the source of power", shows("powerSource")],
  ["thermal", "`pmset -g therm` shows throttling", shows("thermal")],
  ["awake", "`caffeinate -i` prevents idle sleep until it is ended", checkAwake],
  ["file-vault", "`fdesetup status` shows FileVault", shows("fileVault")],
  ["updates", "`defaults` shows whether updates install automatically", shows("updates")],
  ["backup", "`tmutil isexcluded` answers for a folder", shows("backup")],
  ["purgeable", "`osascript` knows the space that macOS would free", checkPurgeable],
  ["firewall", "`socketfilterfw` has a verdict on each engine", checkFirewall],
  ["links", "`networksetup`, `ifconfig` and `route` show the links", shows("links")],
  ["neighbors", "other machines of this network answer: no Local Network privacy in between", checkNeighbors],
  ["launchd", "`launchctl print` shows the agent's job, or that there is none", checkService],
  ["supervisors", "`launchctl list` shows engines under other supervisors", shows("supervised")],
  ["processes", "`ps` lists processes with parent and command", checkPrograms],
  ["listeners", "`lsof` lists ports and their programs", checkListeners],
  ["rosetta", "`sysctl.proc_translated` says whether Node is translated", checkTranslated],
  ["ephemeral-ports", "`sysctl` has the range of outgoing ports", checkEphemeral],
  ["file-limit", "`ulimit -n` has the limit of open files", shows("fileLimit")],
  ["crash-reports", "reports of panics and jetsam can be listed", checkCrashes],
  ["account", "`dscl` reads accounts and groups as install expects them", checkAccount],
  [
    "launchd-job",
    "launchd loads, restarts and unloads a job with the plist of an installation, and spares what it started",
    checkJob,
  ],
];

export const toolSteps: readonly SelftestStep[] = steps.map(([name, proves, run]) => ({
  name,
  proves,
  run,
  platforms: ["darwin"],
  limitMs: LIMIT_MS,
}));

/** Takes a reading of doctor with the tools of the bench. */
function read<Name extends keyof typeof darwinReadings>(
  name: Name,
  { run, folder, config, env }: Bench,
): ReturnType<(typeof darwinReadings)[Name]> {
  const tools: DarwinTools = {
    run,
    folder,
    server: undefined,
    tryReach,
    // Lazy, because it runs programs and only one reading needs it.
    get engines() {
      return findEngines(config, env);
    },
  };
  return darwinReadings[name](tools) as ReturnType<(typeof darwinReadings)[Name]>;
}

function shows(name: Exclude<keyof typeof darwinReadings, "ephemeral">): SelftestStep["run"] {
  return async (bench) =>
    interpretReading<object>(await read(name, bench), (value) =>
      Array.isArray(value) ? value.map(words).join("; ") || "none" : words(value) || "nothing recorded",
    );
}

const words = (fields: object): string =>
  Object.entries(fields)
    .map(([key, value]) => `${key} ${typeof value === "object" ? JSON.stringify(value) : value}`)
    .join(", ");

/** Adapts RunTool to RunCommand, so that one recorder serves both. */
export function commandOf(run: RunTool): RunCommand {
  return async (program, args, { partial = false } = {}) => {
    const answer = await run(program, args);
    if ("failed" in answer || (answer.code !== 0 && !partial) || answer.stdout === "") return undefined;
    return answer.stdout;
  };
}

const readerOf = ({ run }: Bench) => createHostReader("darwin", commandOf(run));

async function checkMachine(bench: Bench): Promise<SelftestOutcome> {
  const info = await readerOf(bench).info();
  const required = [
    "machineId",
    "osVersion",
    "chip",
    "hardwareModel",
    "performanceCores",
    "gpuCores",
  ] as const;
  const missing = [...required, "memoryBytes" as const, "bootTime" as const].filter(
    (key) => info[key] === undefined,
  );
  if (missing.length > 0) return failedStep(`cannot be read: ${missing.join(", ")}`);
  return passedStep(
    `${info.chip}, ${info.hardwareModel}, macOS ${info.osVersion}, ${formatBytes(info.memoryBytes ?? 0)}`,
  );
}

async function checkMemory(bench: Bench): Promise<SelftestOutcome> {
  const reader = readerOf(bench);
  const { pressure, ...sizes } = await reader.memory();
  const { totalBytes, availableBytes: available, swapUsedBytes } = sizes;
  if (pressure === "Unknown") return failedStep("memory pressure cannot be read");
  if (totalBytes === undefined || available === undefined || swapUsedBytes === undefined)
    return failedStep(`only ${Object.keys(sizes).join(", ") || "nothing"} can be read`);
  if (available > totalBytes) return failedStep("more memory is available than installed");
  return passedStep(
    `${formatBytes(available)} of ${formatBytes(totalBytes)} available, pressure ${pressure}`,
  );
}

async function checkVmStat(bench: Bench): Promise<SelftestOutcome> {
  const stat = parseVmStat((await commandOf(bench.run)("vm_stat", [])) ?? "");
  const available = stat && availableBytes(stat);
  const { totalBytes, availableBytes: counted } = await readerOf(bench).memory();
  if (available === undefined || !stat?.pages.has("Pages wired down"))
    return failedStep("vm_stat has not all rows that are needed");
  if (totalBytes === undefined || counted === undefined) return unknownStep("sysctl has no counters");
  const both = `vm_stat ${formatBytes(available)}, sysctl ${formatBytes(counted)}`;
  return Math.abs(available - counted) <= MEMORY_PART * totalBytes
    ? passedStep(both)
    : failedStep(`they differ: ${both}`);
}

async function checkBoot({ run }: Bench): Promise<SelftestOutcome> {
  const id = await readBootId("darwin", commandOf(run));
  return id === undefined ? failedStep("sysctl does not know the key") : passedStep("present");
}

/** Uses caffeinate as agent/host/keep-awake.ts does. */
async function checkAwake({ path, runPrivately, signal, cleanUp }: Bench): Promise<SelftestOutcome> {
  const child = spawn("caffeinate", ["-i", "-w", String(process.pid)], {
    stdio: "ignore",
    env: { PATH: path },
  });
  const isHeld = async (): Promise<boolean | undefined> => {
    const answer = await runPrivately("pmset", ["-g", "assertions"]);
    if ("failed" in answer || !/PreventUserIdleSystemSleep/.test(answer.stdout)) return undefined;
    return new RegExp(`pid ${child.pid}\\(caffeinate\\)`).test(answer.stdout);
  };
  cleanUp(async () => void child.kill("SIGKILL"));
  await once(child, "spawn");
  const ended = once(child, "exit");
  while (!(await isHeld())) {
    if (signal.aborted || child.exitCode !== null)
      return failedStep("pmset does not show caffeinate's assertion");
  }
  child.kill("SIGTERM");
  await ended;
  return (await isHeld()) === false
    ? passedStep("held, and released at its end")
    : failedStep("held after caffeinate's end");
}

async function checkPurgeable({ run, folder }: Bench): Promise<SelftestOutcome> {
  const bytes = await capacityWithPurging(commandOf(run), folder);
  return bytes === undefined ? failedStep("osascript gave no number") : passedStep(formatBytes(bytes));
}

async function checkTranslated(bench: Bench): Promise<SelftestOutcome> {
  return interpretReading(await read("program", bench), ({ isTranslated }) => String(isTranslated));
}

async function checkFirewall(bench: Bench): Promise<SelftestOutcome> {
  const reading = await read("firewall", bench);
  const bad =
    "value" in reading ? reading.value.programs.find(({ verdict }) => verdict === "unknown") : undefined;
  if (bad !== undefined) return failedStep(`the verdict on ${bad.path} is not understood`);
  return interpretReading(reading, ({ state, programs: judged }) =>
    [state, ...judged.map(({ engine, verdict }) => `${engine} ${verdict}`)].join(", "),
  );
}

async function checkNeighbors(bench: Bench): Promise<SelftestOutcome> {
  const reading = await read("neighbors", bench);
  if ("unknown" in reading) return unknownStep(reading.unknown);
  const blocked = reading.value.peers.filter(({ reach }) => reach === "noRoute").length;
  return blocked === reading.value.peers.length
    ? failedStep(`no route to ${blocked} neighbors, although the gateway answers`)
    : passedStep(`${reading.value.peers.length - blocked} neighbors have a route`);
}

async function checkService(bench: Bench): Promise<SelftestOutcome> {
  return interpretReading(await read("service", bench), ({ found }) =>
    found === undefined
      ? "not installed"
      : `${found.name}, ${found.state}, ${found.processType ?? "type unknown"}`,
  );
}

async function checkPrograms(bench: Bench): Promise<SelftestOutcome> {
  const reading = await read("programs", bench);
  if ("value" in reading && !bench.isReplayed && !reading.value.some(({ pid }) => pid === process.pid))
    return failedStep("ps does not list this process");
  return interpretReading(reading, (programs) => `${programs.length} processes`);
}

async function checkListeners(bench: Bench): Promise<SelftestOutcome> {
  const server = createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as { readonly port: number };
  const reading = await read("listeners", bench).finally(() => server.close());
  const own = "value" in reading ? reading.value.find((one) => one.port === port) : undefined;
  if ("value" in reading && !bench.isReplayed && own?.pid !== process.pid)
    return failedStep("lsof does not list a port of this process");
  return interpretReading(reading, (listeners) => `${listeners.length} ports`);
}

async function checkEphemeral(bench: Bench): Promise<SelftestOutcome> {
  const range = valueOfReading(await read("ephemeral", bench));
  if (range !== undefined) return passedStep(range.join(" to "));
  return bench.isReplayed
    ? unknownStep("the recording does not have it")
    : failedStep("sysctl does not know the keys");
}

async function checkCrashes(bench: Bench): Promise<SelftestOutcome> {
  const reading = await read("crashes", bench);
  return "unknown" in reading ? unknownStep(reading.unknown) : passedStep(`${reading.value.length} reports`);
}

/** An account that every Mac has. */
async function checkAccount({ path }: Bench): Promise<SelftestOutcome> {
  const account = await createDsclAccounts(createCommand(path)).observe("_www");
  return account.at === "present"
    ? passedStep(`_www is uid ${account.uid}, gid ${account.gid}`)
    : failedStep(`_www is ${account.at}`);
}
