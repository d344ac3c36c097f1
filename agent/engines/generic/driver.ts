/** Any native program as an engine: one process per replica, started and probed as its service describes. */
import { MetalbridgeError } from "../../../src/api/errors.ts";
import type { ProgramSpec } from "../../../src/api/fields/program.ts";
import { classifyExit, ownLines } from "../../../src/engines/generic/exit.ts";
import { genericClaims, programClaimBasis } from "../../../src/engines/generic/hosting.ts";
import { knownName } from "../../../src/engines/generic/known-programs.ts";
import { renderProgram, usesPlaceholder } from "../../../src/engines/generic/program.ts";
import { DEFAULT_HOST_ACCELERATOR, installHintOf } from "../../../src/engines/registry.ts";
import type { EngineDriver, EngineLaunch, EngineOptions, HostEngine } from "../engine.ts";
import { type AllowedBackends, allowedPath, findBackends, pathOf } from "./backends.ts";
import { type GenericConfig, genericConfig } from "./config.ts";
import {
  type ProgramProbes,
  programProbesOf,
  programProbesSchema,
  readInFlight,
  runProgramCheck,
} from "./probe.ts";
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
