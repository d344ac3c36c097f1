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
const MAX_REASON_LENGTH = 300;

/** The probes of a started program, as recorded in engine.json with placeholders filled in. */
export const programProbesSchema = z.object({
  host: z.string(),
  ...programSchema.pick({ liveness: true, readiness: true, inFlightProbe: true, backend: true }).shape,
});
export type ProgramProbes = z.output<typeof programProbesSchema>;

export interface ProbeEnvironment {
  /** The environment of exec probes. */
  readonly env: Readonly<Record<string, string>>;
  /** Throws MetalbridgeError if exec probes may not run the program at this path. */
  readonly check: (path: string) => Promise<void>;
}

/** The cast is safe: only the driver of this engine sets `own`. */
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
  if (exec !== undefined) return runExecProbe(exec, runs, timeoutMs);
  if (httpPath === undefined)
    return (await isPortAnswering(port, host, timeoutMs))
      ? "ok"
      : { failed: "nothing is listening on the port" };
  const reply = await quickGet({ host, port, path: httpPath, timeoutMs });
  if ("failed" in reply) return reply;
  if (reply.status >= 200 && reply.status < 400) return "ok";
  return { failed: `HTTP ${reply.status} from ${httpPath}` };
}

async function runExecProbe(
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
    const child = execFile(path, args, options, (error, _stdout, stderr) => {
      const reason = truncate(stderr.trim().split("\n")[0] ?? "", MAX_REASON_LENGTH);
      if (error === null) resolve("ok");
      else if (error.killed) resolve({ failed: `${path} did not exit within ${timeoutMs} ms` });
      else resolve({ failed: `${path} exited with ${error.signal ?? error.code}: ${reason}` });
    });
    child.stdin?.end();
  });
}

/** Requests in flight; undefined if the program does not report them. */
export async function readInFlight(target: EngineTarget): Promise<number | undefined> {
  const { inFlightProbe } = programProbesOf(target);
  if (inFlightProbe === undefined) return undefined;
  const { host, port } = target;
  const reply = await sendEngineRequest({ host, port, path: inFlightProbe.path, timeoutMs: TIMEOUT_MS });
  if ("failed" in reply || reply.status !== 200) return undefined;
  return sumGauges(reply.body, inFlightProbe.gauges);
}
