/** Reads running programs and their listening ports with `ps`, `lsof` and `sysctl`. */
import type { Reading } from "../../doctor/readings.ts";
import type { RunTool } from "../../util/command.ts";
import { parseCount, parseSysctl } from "../parse.ts";
import { readTool } from "./reading.ts";

export interface RunningProgram {
  readonly pid: number;
  readonly parent: number;
  readonly command: string;
}

export interface Listener {
  readonly port: number;
  readonly pid?: number;
  readonly program?: string;
}

export function readPrograms(run: RunTool): Promise<Reading<readonly RunningProgram[]>> {
  return readTool(run, ["ps", "-axo", "pid=,ppid=,command="], (text) => {
    const found = [...text.matchAll(/^\s*(\d+)\s+(\d+)\s+(.+)$/gm)];
    if (found.length === 0) return undefined;
    return found.map(([, pid, parent, command = ""]) => ({
      pid: Number(pid),
      parent: Number(parent),
      command,
    }));
  });
}

/** Only root sees the ports of other users' programs. lsof exits with 1 if it finds none. */
export async function readListeners(run: RunTool): Promise<Reading<readonly Listener[]>> {
  const result = await run("lsof", ["-nP", "-iTCP", "-sTCP:LISTEN", "-Fpcn"]);
  if ("failed" in result) return { unknown: result.failed };
  if (result.code !== 0 && result.stdout + result.stderr !== "")
    return { unknown: `lsof exited with ${result.code}` };
  let pid = 0;
  let program = "";
  const found = new Map<number, Listener>();
  for (const line of result.stdout.split("\n")) {
    const [kind, rest] = [line[0], line.slice(1)];
    if (kind === "p") pid = Number(rest);
    if (kind === "c") program = rest;
    const port = kind === "n" ? /:(\d+)$/.exec(rest)?.[1] : undefined;
    if (port !== undefined) found.set(Number(port), { port: Number(port), pid, program });
  }
  if (found.size === 0 && result.stdout !== "") return { unknown: "the output of lsof is not understood" };
  return { value: [...found.values()] };
}

/** First and last port of outgoing connections. */
export async function readEphemeralPorts(run: RunTool): Promise<readonly [number, number] | undefined> {
  const keys = ["net.inet.ip.portrange.first", "net.inet.ip.portrange.last"];
  const result = await run("sysctl", keys);
  const values = parseSysctl("failed" in result ? "" : result.stdout);
  const [first, last] = keys.map((key) => parseCount(values.get(key)));
  return first === undefined || last === undefined ? undefined : [first, last];
}

/** True under Rosetta. A system without the key does not translate. */
export async function readIsTranslated(run: RunTool): Promise<Reading<boolean>> {
  const result = await run("sysctl", ["sysctl.proc_translated"]);
  if ("failed" in result) return { unknown: result.failed };
  const value = parseSysctl(result.stdout).get("sysctl.proc_translated");
  return { value: value === "1" };
}
