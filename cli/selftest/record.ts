/** Records the output of tools in the form of test/macos, and replaces everything that identifies the machine. */
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import { MetalbridgeError, remedyOf } from "../../src/api/errors.ts";
import { ENGINE_PROGRAMS } from "../../src/engines/traces.ts";
import { parseCount, parseSwVers, parseSysctl } from "../../src/macos/parse.ts";
import type { RunTool, ToolResult } from "../../src/util/command.ts";
import { defined } from "../../src/util/defined.ts";
import { errorMessage } from "../../src/util/error-message.ts";
import { compareText } from "../../src/util/text.ts";
import { createRedaction, leftovers, type Names, type Redaction } from "./redact.ts";

export interface Recorder {
  /** Runs a tool and records its output. */
  readonly run: RunTool;
  /** Resolves with the files of the recording. Also runs tools that no step has run. */
  readonly files: () => Promise<Recorded>;
}

export interface Recorded {
  /** Folder name from model, chip, memory and version. */
  readonly machine: string;
  readonly files: ReadonlyMap<string, string>;
  readonly redaction: Redaction;
}

/** Keys in the order of `sysctl.txt`. Other recorded keys follow. */
const SYSCTL_KEYS = [
  "machdep.cpu.brand_string",
  "hw.model",
  "hw.memsize",
  "hw.pagesize",
  "hw.physicalcpu",
  "hw.nperflevels",
  "hw.perflevel0.name",
  "hw.perflevel0.physicalcpu",
  "hw.perflevel1.name",
  "hw.perflevel1.physicalcpu",
  "kern.boottime",
  "kern.memorystatus_vm_pressure_level",
  "kern.memorystatus_level",
  "vm.swapusage",
  "vm.loadavg",
  "iogpu.wired_limit_mb",
  "vm.pagesize",
  "vm.page_free_count",
  "vm.page_speculative_count",
  "vm.page_purgeable_count",
  "vm.page_pageable_external_count",
];
/** Command lines whose last argument differs between machines. */
const OPEN_ENDED = [
  "socketfilterfw --getappblocked ",
  "tmutil isexcluded ",
  "route -n get ",
  "plutil -convert json -o - ",
  "osascript -l JavaScript -e ",
  "launchctl print gui/",
  "launchctl print user/",
];
/** Programs that doctor knows by name. Other names are replaced. */
const KNOWN = new RegExp(
  ["^/sbin/launchd$", "metalbridge", "llama", "mlx", "LM Studio", "^node$", ...ENGINE_PROGRAMS].join("|"),
  "i",
);
const OTHER = "other";

export function createRecorder(run: RunTool): Recorder {
  const texts = new Map<string, string>();
  const sysctl = new Map<string, string>();
  const tools = new Map<string, ToolResult>();
  let serial: string | undefined;
  const record = (program: string, args: readonly string[], answer: ToolResult): void => {
    if ("failed" in answer) return;
    const { stdout } = answer;
    if (program === "sw_vers" || program === "vm_stat") texts.set(`${program}.txt`, stdout);
    else if (program === "sysctl") {
      for (const [key, value] of parseSysctl(stdout)) sysctl.set(key, value);
    } else if (program === "ioreg") {
      serial ??= /"IOPlatformSerialNumber"\s*=\s*"([^"]+)"/.exec(stdout)?.[1];
      texts.set(`ioreg-${args.at(-1)}.txt`, withoutIdentity(stdout));
    } else if (answer.code === 0 || stdout.trim() + answer.stderr !== "") {
      tools.set(keyOf(program, args), answer);
    }
  };
  const recording: RunTool = async (program, args) => {
    const answer = await run(program, args);
    record(program, args, answer);
    return answer;
  };
  return {
    run: recording,
    files: async () => {
      await recording("sysctl", SYSCTL_KEYS);
      await recording("vm_stat", []);
      const redaction = createRedaction(await namesOf(run, serial));
      const lines = [...new Set([...SYSCTL_KEYS, ...sysctl.keys()])].filter((key) => sysctl.has(key));
      // Only values are redacted, because the name of the machine may be part of a key.
      const values = lines.map((key) => `${key}: ${redaction.redact(sysctl.get(key) ?? "")}\n`);
      texts.set("tools.yaml", `${HEAD}${stringify(fieldsOf(tools), { lineWidth: 0 })}`);
      const files = new Map([...texts].map(([name, text]) => [name, redaction.redact(text)]));
      files.set("sysctl.txt", values.join(""));
      const left = leftovers([...files.values()].join("\n"), redaction);
      if (left.length > 0) throw notRecorded(`${left.length} names or addresses could not be replaced`);
      return { machine: machineName(sysctl, texts.get("sw_vers.txt")), files, redaction };
    },
  };
}

const HEAD = "# More tools of this machine, by command line; `*` replaces an argument that differs.\n";

/** Writes the files into a new folder with the name of the machine. Resolves with its path. */
export async function writeRecording(folder: string, { machine, files }: Recorded): Promise<string> {
  const path = join(folder, machine);
  try {
    await mkdir(path, { recursive: true });
    if ((await readdir(path)).length > 0) throw notRecorded(`${path} is not empty`, folder);
    for (const [name, text] of files) await writeFile(join(path, name), text);
    return path;
  } catch (error) {
    if (error instanceof MetalbridgeError) throw error;
    throw notRecorded(`${path} cannot be written: ${errorMessage(error)}`, folder);
  }
}

/** Without a folder, the command names one. */
const notRecorded = (why: string, folder = "recordings"): MetalbridgeError =>
  new MetalbridgeError("RecordingFailed", why, remedyOf("RecordingFailed", { folder }));

function keyOf(program: string, args: readonly string[]): string {
  const line = [program, ...args].join(" ");
  const start = OPEN_ENDED.find((prefix) => line.startsWith(prefix));
  return start === undefined ? line : `${start}*`;
}

/** The form that doctor-replay reads: the output, or an object if the exit code or stderr must be recorded. */
function fieldsOf(tools: ReadonlyMap<string, ToolResult>): object {
  const byLine = [...tools].sort(([one], [other]) => compareText(one, other));
  return Object.fromEntries(byLine.map(([line, answer]) => [line, fieldOf(line, answer)]));
}

function fieldOf(line: string, answer: ToolResult): string | object | undefined {
  if ("failed" in answer) return undefined;
  const { code, stderr } = answer;
  const stdout = withoutOthers(line, answer.stdout.replace(/\n$/, ""));
  if (code === 0 && stderr === "") return stdout;
  const fields = { code: code || undefined, stdout: stdout || undefined, stderr: stderr || undefined };
  return defined(fields);
}

/** Replaces the names of other programs of the user. */
function withoutOthers(line: string, text: string): string {
  if (line.startsWith("ps "))
    return text.replace(/^(\s*\d+\s+\d+\s+)(.+)$/gm, (whole, start: string, command: string) =>
      KNOWN.test(command) ? whole : start + OTHER,
    );
  if (line.startsWith("lsof "))
    return text.replace(/^c(.+)$/gm, (whole, name: string) => (KNOWN.test(name) ? whole : `c${OTHER}`));
  if (line === "launchctl list")
    return text.replace(/^((?:\d+|-)\t-?\d+\t)(.+)$/gm, (whole, start: string, label: string) =>
      KNOWN.test(label) || label.startsWith("com.apple.") ? whole : start + OTHER,
    );
  return text.replace(/^(\s+[A-Za-z_]\w* => ).*$/gm, "$1removed");
}

/** Keeps only known properties of the platform device, because its serial numbers have many names, some in hex. */
function withoutIdentity(text: string): string {
  const isDevice = /class IOPlatformExpertDevice/.test(text);
  if (!isDevice) return text;
  return text
    .split("\n")
    .filter(
      (line) => !/^[\s|]*"/.test(line) || /"(?:IOPlatformUUID|model|compatible|manufacturer)" =/.test(line),
    )
    .join("\n");
}

const NAME_COMMANDS = [
  ["hosts", "scutil", "--get", "ComputerName"],
  ["hosts", "scutil", "--get", "LocalHostName"],
  ["hosts", "scutil", "--get", "HostName"],
  ["hosts", "hostname"],
  ["users", "id", "-un"],
  ["users", "id", "-F"],
] as const;

async function namesOf(run: RunTool, serial: string | undefined): Promise<Names> {
  const found = await Promise.all(
    NAME_COMMANDS.map(async ([kind, program, ...args]) => {
      const answer = await run(program, args);
      const name = "failed" in answer || answer.code !== 0 ? "" : answer.stdout.trim();
      return {
        kind,
        names: name === "" ? [] : [name, ...(kind === "hosts" ? [name.split(".")[0] ?? ""] : [])],
      };
    }),
  );
  const of = (kind: "hosts" | "users") =>
    found.filter((one) => one.kind === kind).flatMap(({ names }) => names);
  return { hosts: of("hosts"), users: of("users"), serials: serial === undefined ? [] : [serial] };
}

/** `mac16-5-m4-max-48gb-macos-15.6`. */
function machineName(sysctl: ReadonlyMap<string, string>, swVers: string | undefined): string {
  const gib = (parseCount(sysctl.get("hw.memsize")) ?? 0) / 2 ** 30;
  const chip = (sysctl.get("machdep.cpu.brand_string") ?? "").replace(/^Apple /, "");
  const version = /^\d+\.\d+/.exec(parseSwVers(swVers) ?? "")?.[0] ?? "unknown";
  return [sysctl.get("hw.model") ?? "mac", chip, `${Math.round(gib)}gb`, "macos", version]
    .join("-")
    .toLowerCase()
    .replace(/[^a-z0-9.]+/g, "-");
}
