/** Reads launchd jobs: the agent's own job, and jobs of other supervisors. */
import * as z from "zod";
import { LAUNCHD_LABEL } from "../../api/group.ts";
import type { Reading, Readings, ServiceReading } from "../../doctor/readings.ts";
import { TRACES } from "../../engines/traces.ts";
import type { RunTool } from "../../util/command.ts";
import { parseJson } from "../../util/parse-json.ts";
import { NO_DOMAIN, NOT_FOUND, parseJobFields } from "../launchctl.ts";
import { parseCount } from "../parse.ts";
import { readTool } from "./reading.ts";

const FORMULAS = TRACES.flatMap(({ formula }) => (formula === undefined ? [] : [formula]));

/** Searches the domain of the system first, then the domains of the user. */
export async function readService(run: RunTool, uid: number): Promise<Reading<ServiceReading>> {
  for (const domain of ["system", `gui/${uid}`, `user/${uid}`]) {
    const reading = await readJob(run, domain);
    if (reading !== "absent") return reading;
  }
  return { value: {} };
}

async function readJob(run: RunTool, domain: string): Promise<Reading<ServiceReading> | "absent"> {
  const target = `${domain}/${LAUNCHD_LABEL}`;
  const result = await run("launchctl", ["print", target]);
  if ("failed" in result) return { unknown: result.failed };
  if (result.code === NOT_FOUND || result.code === NO_DOMAIN) return "absent";
  if (result.code !== 0) return { unknown: `launchctl print ${target} exited with ${result.code}` };
  const fields = parseJobFields(result.stdout);
  const state = fields.get("state");
  if (state === undefined) return { unknown: `the output of launchctl print ${target} is not understood` };
  return {
    value: {
      found: {
        name: target,
        kind: domain === "system" ? "daemon" : "loginAgent",
        state,
        pid: parseCount(fields.get("pid")),
        runs: parseCount(fields.get("runs")),
        lastExit: fields.get("last exit code") ?? fields.get("last terminating signal"),
        processType: await readProcessType(run, fields.get("path")),
      },
    },
  };
}

/** Lists engines that Homebrew or a plist of the user keeps running. */
export function readSupervised(run: RunTool): Promise<Reading<Readings["supervised"]>> {
  return readTool(run, ["launchctl", "list"], (text) => {
    if (!text.startsWith("PID")) return undefined;
    const labels = text.split("\n").map((line) => line.split("\t")[2] ?? "");
    return labels.flatMap((name) => {
      const formula = /^(?:homebrew\.mxcl|sh\.brew)\.(\S+)$/.exec(name)?.[1];
      if (formula !== undefined && FORMULAS.includes(formula))
        return [{ name, stop: `brew services stop ${formula}` }];
      return /^com\.mlx\.\S+$/.test(name) ? [{ name, stop: `launchctl remove ${name}` }] : [];
    });
  });
}

/** "Standard" is launchd's default. */
const plistSchema = z.object({ ProcessType: z.string().catch("Standard") });

/** Undefined if the plist cannot be read. */
async function readProcessType(run: RunTool, plist: string | undefined): Promise<string | undefined> {
  if (plist === undefined) return undefined;
  const reading = await readTool(run, ["plutil", "-convert", "json", "-o", "-", plist], parseJson);
  return "value" in reading ? plistSchema.safeParse(reading.value).data?.ProcessType : undefined;
}
