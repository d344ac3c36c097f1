/** Any native program as an engine: one process per replica, started and probed as its service describes. */

import { execFile } from "node:child_process";
import { z } from "zod";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { type ProgramCheck, type ProgramSpec, programSchema } from "../../../src/api/fields/program.ts";
import { classifyExit, ownLines } from "../../../src/engines/generic/exit.ts";
import { genericClaims, programClaimBasis } from "../../../src/engines/generic/hosting.ts";
import { knownName } from "../../../src/engines/generic/known-programs.ts";
import { renderProgram, sumGauges, usesPlaceholder } from "../../../src/engines/generic/program.ts";
import { DEFAULT_HOST_ACCELERATOR, installHintOf } from "../../../src/engines/registry.ts";
import { truncate } from "../../../src/util/text.ts";
import { isPortAnswering } from "../../instances/process/engine-port.ts";
import type {
  EngineDriver,
  EngineLaunch,
  EngineOptions,
  EngineTarget,
  HostEngine,
  RequestResult,
} from "../driver/engine.ts";
import { sendEngineRequest } from "../driver/http.ts";
import { quickGet } from "../driver/quick-get.ts";
import { type AllowedBackends, allowedPath, findBackends, pathOf } from "./backends.ts";
import { type GenericConfig, genericConfig } from "./config.ts";
import { checkProgram, checkVariables, findKnownPrograms, locateInRoots } from "./programs.ts";

const LOOPBACK = "127.0.0.1";

export const genericEngine: HostEngine<GenericConfig> = {
  runtime: "generic",
  config: genericConfig,
  driver: genericDriver,
};

function genericDriver({ roots, env: named }: GenericConfig, options: EngineOptions): EngineDriver {
  const {
    env,
    instances: { processes },
    machine: { backends = {} },
  } = options;
  const runsOf = ({ backend }: Pick<ProgramSpec, "backend">) => {
    const own = backend === undefined ? undefined : pathOf(backends, backend);
    const allowed = own === undefined ? roots : [own, ...roots];
    return { env, check: (path: string) => checkProgram(path, allowed) };
  };
  return {
    runtime: "generic",
    // Without a path nothing is reported, but replicas get the reason why their program is not allowed.
    detect: async () => {
      const programs = [...(await findKnownPrograms(roots)), ...(await findBackends(backends))];
      return { name: "generic", version: "1", path: roots[0], programs };
    },
    open: async (place, launch) => {
      const {
        command,
        env: programEnv,
        tty,
        ...program
      } = await prepare(launch, {
        roots,
        env: named,
        backends,
      });
      const { check } = runsOf(program);
      for (const path of [command[0], program.liveness.exec?.[0], program.readiness?.exec?.[0]])
        if (path !== undefined) await check(path);
      const { port, record } = launch;
      const variables = Object.fromEntries(programEnv.map(({ name, value }) => [name, value]));
      return processes.open(place, {
        argv: command,
        env: { ...env, ...variables },
        record,
        tty: tty === true ? tty : undefined,
        stored: { program },
        target: { host: program.host, port, own: program },
      });
    },
    adopt: (place, { port, record }) => {
      const found = programProbesSchema.safeParse(record.program);
      // Without a record the agent can still check that a program listens on the port.
      const own: ProgramProbes = found.success ? found.data : { host: LOOPBACK, liveness: {} };
      return processes.adopt(place, { host: own.host, port, own });
    },
    claim: (settings, { sizeBytes }, draft) =>
      genericClaims.estimate(
        { weightsBytes: sizeBytes },
        { ...settings, draft: draft && { weightsBytes: draft.sizeBytes } },
        DEFAULT_HOST_ACCELERATOR,
      ),
    claimBasis: programClaimBasis,
    probeHealth: async (target, { timeoutMs } = {}) => {
      const probes = programProbesOf(target);
      const answer = await runProgramCheck(target, probes.liveness, runsOf(probes), timeoutMs);
      return answer === "ok" ? "healthy" : { unhealthy: answer.failed };
    },
    probeRequest: (target, { timeoutMs } = {}) => {
      const { liveness, readiness = liveness, backend } = programProbesOf(target);
      return runProgramCheck(target, readiness, runsOf({ backend }), timeoutMs);
    },
    readWork: async (target) => {
      const inFlight = await readInFlight(target);
      return inFlight === undefined ? "unknown" : { inFlight, tokensTotal: 0 };
    },
    classifyExit,
    ownLines,
  };
}

/** The program with all placeholders filled in, and the address at which it will answer. */
async function prepare(
  { template, modelPath, draftPath, address, port }: EngineLaunch,
  allowed: Allowed,
): Promise<ProgramSpec & ProgramProbes> {
  const { program, contextSize, parallelSlots = 1 } = template.engine;
  if (program === undefined)
    throw new MetalbridgeError("CommandInvalid", "spec.template.engine.program is missing");
  checkVariables(program, allowed.env);
  const rendered = renderProgram(await locate(program, allowed), {
    model: modelPath,
    modelName: template.serviceName,
    draftModel: draftPath,
    port: String(port),
    address,
    contextSize: contextSize?.toString(),
    slots: String(parallelSlots),
    tensorParallelSize: "1",
    pipelineParallelSize: "1",
  });
  // Most programs listen at one address. Without the host's address they listen at all of them, or at none that clients reach.
  return { ...rendered, host: usesPlaceholder(program, "address") ? address : LOOPBACK };
}

interface Allowed extends GenericConfig {
  readonly backends: AllowedBackends;
}

/** Replaces the name of a known program, or of the program of a BackendRuntime, by its path on this host. */
async function locate(program: ProgramSpec, { roots, backends }: Allowed): Promise<ProgramSpec> {
  const { backend, command } = program;
  if (backend !== undefined)
    return { ...program, command: [allowedPath(backends, backend, command[0] ?? ""), ...command.slice(1)] };
  const name = knownName(program);
  if (name === undefined) return program;
  const path = await locateInRoots(name, roots);
  if (path !== undefined) return { ...program, command: [path, ...program.command.slice(1)] };
  const summary = installHintOf(name) ?? "install it there";
  throw new MetalbridgeError("RuntimeNotInstalled", `${name} is in none of generic.roots on this host`, {
    summary,
  });
}

const TIMEOUT_MS = 2_000;
const MAX_REASON_LENGTH = 300;

/** The probes of a started program, as recorded in engine.json with placeholders filled in. */
const programProbesSchema = z.object({
  host: z.string(),
  ...programSchema.pick({ liveness: true, readiness: true, inFlightProbe: true, backend: true }).shape,
});
type ProgramProbes = z.output<typeof programProbesSchema>;

interface ProbeEnvironment {
  /** The environment of exec probes. */
  readonly env: Readonly<Record<string, string>>;
  /** Throws MetalbridgeError if exec probes may not run the program at this path. */
  readonly check: (path: string) => Promise<void>;
}

/** The cast is safe: only the driver of this engine sets `own`. */
function programProbesOf({ own }: EngineTarget): ProgramProbes {
  return own as ProgramProbes;
}

async function runProgramCheck(
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
async function readInFlight(target: EngineTarget): Promise<number | undefined> {
  const { inFlightProbe } = programProbesOf(target);
  if (inFlightProbe === undefined) return undefined;
  const { host, port } = target;
  const reply = await sendEngineRequest({ host, port, path: inFlightProbe.path, timeoutMs: TIMEOUT_MS });
  if ("failed" in reply || reply.status !== 200) return undefined;
  return sumGauges(reply.body, inFlightProbe.gauges);
}
