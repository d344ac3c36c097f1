/** systemd and systemctl, of one unit at a time: it really runs. */
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { send } from "../signal.ts";
import { type JobProcess, startJob } from "./job-process.ts";
import type { Answer, Call, Replayed } from "./replayed-commands.ts";

export interface SystemdOptions {
  readonly folder: string;
  /** The folder as the machine itself names it; by default the same. */
  readonly namedFolder?: string;
  readonly msPerSecond?: number;
  readonly idsOf: (account: string) => { readonly uid: number; readonly gid: number } | undefined;
  readonly env?: Readonly<Record<string, string>>;
  /** Before each command line, in place of a start with `ids`: runs it elsewhere. */
  readonly inside?: (ids: ReturnType<SystemdOptions["idsOf"]>) => readonly string[];
}

export interface Systemd {
  readonly systemctl: Replayed;
  readonly pidOf: (unit: string) => number | undefined;
  readonly isEnabled: (unit: string) => boolean;
  readonly stopAll: () => Promise<void>;
}

interface Unit {
  settings: ReadonlyMap<string, string>;
  state: "active" | "activating" | "deactivating" | "inactive";
  process: JobProcess | undefined;
  restarts: number;
  lastStatus: number;
  timer: NodeJS.Timeout | undefined;
}

export function startSystemd(options: SystemdOptions): Systemd {
  const { folder, namedFolder = folder, msPerSecond = 100, idsOf, env = {}, inside } = options;
  const units = new Map<string, Unit>();
  const enabled = new Set<string>();

  /** What systemd knows: a changed file counts only after daemon-reload. */
  const load = (name: string): Unit | undefined => {
    const file = path.join(folder, name);
    if (!existsSync(file)) return undefined;
    const settings = parseUnit(readFileSync(file, "utf8"));
    const known = units.get(name);
    if (known !== undefined) {
      known.settings = settings;
      return known;
    }
    const fresh: Unit = {
      settings,
      state: "inactive",
      process: undefined,
      restarts: 0,
      lastStatus: 0,
      timer: undefined,
    };
    units.set(name, fresh);
    return fresh;
  };

  const run = async (unit: Unit): Promise<void> => {
    const { settings } = unit;
    const user = settings.get("User");
    unit.timer = undefined;
    const argv = splitExec(settings.get("ExecStart") ?? "");
    const ids = user === undefined ? undefined : idsOf(user);
    const child = await startJob({
      argv: inside === undefined ? argv : [...inside(ids), ...argv],
      // HOME is set for units with User= (systemd.exec), from the account, which exists here on paper only.
      env: { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", HOME: "/", ...env },
      ...(inside === undefined ? ids : {}),
    });
    unit.process = child;
    if (child === undefined) {
      unit.lastStatus = 203;
      return again(unit);
    }
    unit.state = "active";
    child.exited
      .then(({ code }) => {
        unit.process = undefined;
        unit.lastStatus = code ?? 15;
        // KillMode=process leaves the rest alone; the default kills it.
        if (settings.get("KillMode") !== "process") send(-child.pid, "SIGKILL");
        if (unit.state === "deactivating") unit.state = "inactive";
        else if (unit.state === "active") again(unit);
      })
      .catch(() => undefined);
  };

  const again = (unit: Unit): void => {
    if (unit.settings.get("Restart") !== "always") {
      unit.state = "inactive";
      return;
    }
    unit.state = "activating";
    unit.restarts += 1;
    const seconds = Number(unit.settings.get("RestartSec") ?? "0.1");
    unit.timer = setTimeout(() => void run(unit), seconds * msPerSecond);
  };

  const stop = async (unit: Unit): Promise<void> => {
    clearTimeout(unit.timer);
    if (unit.process === undefined) {
      unit.state = "inactive";
      return;
    }
    unit.state = "deactivating";
    unit.process.stop(Number(unit.settings.get("TimeoutStopSec") ?? "90") * msPerSecond);
    await unit.process.exited;
  };

  const start = async (unit: Unit): Promise<void> => {
    unit.restarts = 0;
    if (unit.process === undefined) await run(unit);
  };
  const onUnit: Readonly<Record<string, (unit: Unit, name: string) => unknown>> = {
    enable: (_, name) => enabled.add(name),
    stop,
    start,
    restart: (unit) => stop(unit).then(() => start(unit)),
    kill: ({ process: main }) => main && process.kill(main.pid, "SIGKILL"),
  };
  const onAll: Readonly<Record<string, (name: string) => unknown>> = {
    "daemon-reload": () => {
      for (const known of units.keys()) if (load(known) === undefined) units.delete(known);
    },
    disable: (name) => enabled.delete(name),
    "reset-failed": () => undefined,
  };
  const systemctl = async ({ args: [verb = "", ...rest], euid }: Call): Promise<Answer> => {
    const name = rest.find((one) => !one.startsWith("-")) ?? "";
    if (verb === "show")
      return { out: show(units.get(name), path.join(namedFolder, name), enabled.has(name)) };
    if (euid !== 0) return { code: 1, err: "Interactive authentication required.\n" };
    onAll[verb]?.(name);
    if (onUnit[verb] === undefined) return {};
    const unit = units.get(name) ?? load(name);
    if (unit === undefined) return { code: 5, err: `Unit ${name} not found.\n` };
    await onUnit[verb]?.(unit, name);
    return {};
  };

  return {
    systemctl,
    pidOf: (name) => units.get(name)?.process?.pid,
    isEnabled: (name) => enabled.has(name),
    stopAll: async () => {
      for (const unit of units.values()) await stop(unit);
    },
  };
}

function parseUnit(text: string): ReadonlyMap<string, string> {
  const pairs = text.split("\n").filter((line) => /^[A-Z]\w*=/.test(line));
  return new Map(pairs.map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]));
}

function splitExec(line: string): readonly string[] {
  const words = line.match(/"(?:[^"\\]|\\.)*"|\S+/g) ?? [];
  return words.map((word) =>
    word.replace(/^"|"$/g, "").replaceAll("%%", "%").replaceAll("$$", "$").replaceAll('\\"', '"'),
  );
}

function show(unit: Unit | undefined, file: string, isEnabled: boolean): string {
  return `${[
    `LoadState=${unit === undefined ? "not-found" : "loaded"}`,
    `ActiveState=${unit?.state ?? "inactive"}`,
    `SubState=${unit?.state === "active" ? "running" : "dead"}`,
    `MainPID=${unit?.process?.pid ?? 0}`,
    `NRestarts=${unit?.restarts ?? 0}`,
    `ExecMainStatus=${unit?.lastStatus ?? 0}`,
    `FragmentPath=${unit === undefined ? "" : file}`,
    `UnitFileState=${isEnabled ? "enabled" : "disabled"}`,
  ].join("\n")}\n`;
}
