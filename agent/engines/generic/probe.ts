/** Requests to a running program, as its service describes them. */
import { execFile } from "node:child_process";
import { z } from "zod";
import { type ProgramCheck, programSchema } from "../../../src/api/fields/program.ts";
import { sumGauges } from "../../../src/engines/generic/program.ts";
import { truncate } from "../../../src/util/text.ts";
import { isPortAnswering } from "../../instances/process/engine-port.ts";
import type { EngineTarget, RequestResult } from "../engine.ts";
import { sendEngineRequest } from "../io/http.ts";
import { quickGet } from "../io/quick-get.ts";

const TIMEOUT_MS = 2_000;
const MAX_WORDS = 300;

/** What is known of a started program, in engine.json; placeholders are filled in. */
export const programProbesSchema = z.object({
  host: z.string(),
  ...programSchema.pick({ liveness: true, readiness: true, inFlightProbe: true }).shape,
});
export type ProgramProbes = z.output<typeof programProbesSchema>;

/** Environment of exec probes, and what of the host they may run. Throws MetalbridgeError. */
export interface ProbeEnvironment {
  readonly env: Readonly<Record<string, string>>;
  readonly check: (path: string) => Promise<void>;
}

/** Only the driver of this engine sets it. */
export function programProbesOf({ own }: EngineTarget): ProgramProbes {
  return own as ProgramProbes;
}

export async function runProgramCheck(
  target: EngineTarget,
  { httpPath, exec }: ProgramCheck,
  runs: ProbeEnvironment,
  timeoutMs = TIMEOUT_MS,
): Promise<RequestResult> {
  const { host, port } = target;
  if (exec !== undefined) return run(exec, runs, timeoutMs);
  if (httpPath === undefined)
    return (await isPortAnswering(port, host, timeoutMs))
      ? "ok"
      : { failed: "nothing is listening on the port" };
  const reply = await quickGet({ host, port, path: httpPath, timeoutMs });
  if ("failed" in reply) return reply;
  if (reply.status >= 200 && reply.status < 400) return "ok";
  return { failed: `HTTP ${reply.status} from ${httpPath}` };
}

async function run(
  [path = "", ...args]: readonly string[],
  runs: ProbeEnvironment,
  timeoutMs: number,
): Promise<RequestResult> {
  try {
    await runs.check(path);
  } catch (error) {
    return { failed: error instanceof Error ? error.message : String(error) };
  }
  return new Promise((resolve) => {
    const options = { env: runs.env, timeout: timeoutMs, killSignal: "SIGKILL" } as const;
    const child = execFile(path, args, options, (error, _out, words) => {
      if (error === null) resolve("ok");
      else if (error.killed) resolve({ failed: `${path} did not exit within ${timeoutMs} ms` });
      else resolve({ failed: `${path} exited with ${error.signal ?? error.code}: ${shown(words)}` });
    });
    child.stdin?.end();
  });
}

function shown(words: string): string {
  return truncate(words.trim().split("\n")[0] ?? "", MAX_WORDS);
}

/** Requests in flight; undefined where it does not report them. */
export async function readInFlight(target: EngineTarget): Promise<number | undefined> {
  const { inFlightProbe } = programProbesOf(target);
  if (inFlightProbe === undefined) return undefined;
  const { host, port } = target;
  const reply = await sendEngineRequest({ host, port, path: inFlightProbe.path, timeoutMs: TIMEOUT_MS });
  if ("failed" in reply || reply.status !== 200) return undefined;
  return sumGauges(reply.body, inFlightProbe.gauges);
}
