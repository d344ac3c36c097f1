/** Jobs of launchd: the agent's own, and those of other supervisors. */
import type { Reading, Readings, ServiceReading } from "../../doctor/readings.ts";
import { TRACES } from "../../engines/traces.ts";
import type { RunTool } from "../../util/command.ts";
import { readTool } from "./reading.ts";

const LABEL = "dev.metalbridge.agent";
/** launchctl print, for a service that the domain does not have, and for the domain of a user who is not logged in. */
const ABSENT: readonly number[] = [113, 125];
const FORMULAS = TRACES.flatMap(({ formula }) => (formula === undefined ? [] : [formula]));

/** In the system's domain first, then in that of the user. */
export async function readService(run: RunTool, uid: number): Promise<Reading<ServiceReading>> {
  for (const domain of ["system", `gui/${uid}`, `user/${uid}`]) {
    const reading = await readJob(run, domain);
    if (reading !== "absent") return reading;
  }
  return { value: {} };
}

async function readJob(run: RunTool, domain: string): Promise<Reading<ServiceReading> | "absent"> {
  const target = `${domain}/${LABEL}`;
  const answer = await run("launchctl", ["print", target]);
  if ("failed" in answer) return { unknown: answer.failed };
  if (ABSENT.includes(answer.code)) return "absent";
  if (answer.code !== 0) return { unknown: `launchctl print ${target} exited with ${answer.code}` };
  const fields = parsePrint(answer.stdout);
  const state = fields.get("state");
  if (state === undefined) return { unknown: `the output of launchctl print ${target} is not understood` };
  const processType = await readProcessType(run, fields.get("path"));
  const lastExit = fields.get("last exit code") ?? fields.get("last terminating signal");
  const found = {
    name: target,
    kind: domain === "system" ? ("daemon" as const) : ("loginAgent" as const),
    state,
    ...numberOf("pid", fields.get("pid")),
    ...numberOf("runs", fields.get("runs")),
    ...(lastExit === undefined ? {} : { lastExit }),
    ...(processType === undefined ? {} : { processType }),
  };
  return { value: { found } };
}

/** Engines that Homebrew or a plist of the user keeps running. */
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

/** Only lines with a single leading tab: nested blocks repeat the keys. */
function parsePrint(text: string): ReadonlyMap<string, string> {
  return new Map(
    [...text.matchAll(/^\t([a-z][a-z ]*) = (.*)$/gm)].map(([, key = "", value = ""]) => [key, value]),
  );
}

/** launchd's default where the plist does not say; undefined where the plist cannot be read. */
async function readProcessType(run: RunTool, plist: string | undefined): Promise<string | undefined> {
  if (plist === undefined) return undefined;
  const reading = await readTool(run, ["plutil", "-convert", "json", "-o", "-", plist], parseJson);
  if ("unknown" in reading) return undefined;
  const { ProcessType: type } = reading.value;
  return typeof type === "string" ? type : "Standard";
}

function parseJson(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === "object" && parsed !== null ? (parsed as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function numberOf<Key extends string>(key: Key, text: string | undefined): { readonly [K in Key]?: number } {
  return text !== undefined && /^\d+$/.test(text) ? ({ [key]: Number(text) } as { [K in Key]: number }) : {};
}
