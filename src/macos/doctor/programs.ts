/** Running programs and the ports they listen on: `ps`, `lsof`, `sysctl`. */
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

/** Of other users' programs only root sees the ports. lsof exits with 1 where it found none. */
export async function readListeners(run: RunTool): Promise<Reading<readonly Listener[]>> {
  const answer = await run("lsof", ["-nP", "-iTCP", "-sTCP:LISTEN", "-Fpcn"]);
  if ("failed" in answer) return { unknown: answer.failed };
  if (answer.code !== 0 && answer.stdout + answer.stderr !== "")
    return { unknown: `lsof exited with ${answer.code}` };
  let pid = 0;
  let program = "";
  const found = new Map<number, Listener>();
  for (const line of answer.stdout.split("\n")) {
    const [kind, rest] = [line[0], line.slice(1)];
    if (kind === "p") pid = Number(rest);
    if (kind === "c") program = rest;
    const port = kind === "n" ? /:(\d+)$/.exec(rest)?.[1] : undefined;
    if (port !== undefined) found.set(Number(port), { port: Number(port), pid, program });
  }
  if (found.size === 0 && answer.stdout !== "") return { unknown: "the output of lsof is not understood" };
  return { value: [...found.values()] };
}

/** First and last port that outgoing connections get. */
export async function readEphemeralPorts(run: RunTool): Promise<readonly [number, number] | undefined> {
  const keys = ["net.inet.ip.portrange.first", "net.inet.ip.portrange.last"];
  const answer = await run("sysctl", keys);
  const values = parseSysctl("failed" in answer ? "" : answer.stdout);
  const [first, last] = keys.map((key) => parseCount(values.get(key)));
  return first === undefined || last === undefined ? undefined : [first, last];
}

/** True under Rosetta; a system without the key is not translated. */
export async function readIsTranslated(run: RunTool): Promise<Reading<boolean>> {
  const answer = await run("sysctl", ["sysctl.proc_translated"]);
  if ("failed" in answer) return { unknown: answer.failed };
  const value = parseSysctl(answer.stdout).get("sysctl.proc_translated");
  return { value: value === "1" };
}
