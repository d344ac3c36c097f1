/** Drivers of the two tiny programs: the minimum that a new engine requires. */
import { fileURLToPath } from "node:url";
import type { Runtime } from "../../../src/api/fields/runtimes.ts";
import { UNKNOWN_MEMORY } from "../../../src/capacity/claim.ts";
import type { DaemonSpec } from "../../instances/daemon/spec.ts";
import type { Instances } from "../../instances/instances.ts";
import type { EngineDriver, EngineTarget, RequestResult } from "../driver/engine.ts";
import { sendEngineRequest } from "../driver/http.ts";

const LOOPBACK = "127.0.0.1";
const TIMEOUT_MS = 5_000;
const env = { PATH: process.env.PATH ?? "" };

function script(name: string): string {
  return fileURLToPath(new URL(name, import.meta.url));
}

/** One process per replica. */
export function tinyEngineDriver({ processes }: Instances): EngineDriver {
  return {
    ...tinyDriver("generic", () => "/"),
    open: (place, { port, address, record }) => {
      const argv = [process.execPath, script("tiny-engine.ts"), String(port), LOOPBACK, address];
      return processes.open(place, { argv, env, record, target: { host: LOOPBACK, port } });
    },
    adopt: (place, { port }) => processes.adopt(place, { host: LOOPBACK, port }),
  };
}

/** One daemon on `port` for all replicas. The model has the service's name. */
export function tinyDaemonDriver({ daemons }: Instances, port: number): EngineDriver {
  const call = (method: "PUT" | "DELETE", model: string): Promise<void> =>
    fetch(`http://${LOOPBACK}:${port}/models/${model}`, {
      method,
      signal: AbortSignal.timeout(TIMEOUT_MS),
    }).then(async (answer) => void (await answer.text()));
  const spec: DaemonSpec = {
    name: "tiny",
    start: {
      ports: [port, port],
      command: () => ({ argv: [process.execPath, script("tiny-daemon.ts"), String(port)], env }),
    },
    api: () => ({
      load: (model) => call("PUT", model),
      unload: (model) => call("DELETE", model),
      loaded: async () => (await tinyModels(port)).map((model) => ({ model, bytes: 1024 })),
    }),
  };
  return {
    ...tinyDriver("ollama", ({ modelAlias }) => `/answer/${modelAlias}`),
    open: (place, { template, record }) => daemons.open(place, spec, { model: template.serviceName, record }),
    adopt: (place, { record }) => daemons.adopt(place, spec, record),
  };
}

/** The models that the daemon on `port` has loaded. */
export async function tinyModels(port: number): Promise<readonly string[]> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  return (await fetch(`http://${LOOPBACK}:${port}/models`, { signal })).json() as Promise<string[]>;
}

function tinyDriver(
  runtime: Runtime,
  pathOf: (target: EngineTarget) => string,
): Omit<EngineDriver, "open" | "adopt"> {
  const request = async (target: EngineTarget): Promise<RequestResult> => {
    const { host, port } = target;
    const answer = await sendEngineRequest({ host, port, path: pathOf(target), timeoutMs: TIMEOUT_MS });
    if ("failed" in answer) return answer;
    return answer.status === 200 ? "ok" : { failed: `HTTP ${answer.status}` };
  };
  return {
    runtime,
    detect: async () => ({ name: runtime, version: "1", path: process.execPath }),
    claim: () => ({ ...UNKNOWN_MEMORY, claimBytes: 1024 ** 2 }),
    probeHealth: async (target) => {
      const answer = await request(target);
      return answer === "ok" ? "healthy" : { unhealthy: answer.failed };
    },
    probeRequest: request,
    readWork: async (target) =>
      (await request(target)) === "ok" ? { inFlight: 0, tokensTotal: 0 } : "unknown",
    devices: async () => "unknown",
    classifyExit: (exit) =>
      exit !== "unknown" && exit.signal === "SIGKILL"
        ? { code: "EngineKilled", message: "killed" }
        : { code: "EngineCrashed", message: "it exited" },
    ownLines: (logTail) => logTail,
  };
}
