/** The registry of engines. */

import type { Mode } from "../api/engine-settings.ts";
import { MetalbridgeError } from "../api/errors.ts";
import type { Accelerator } from "../api/fields/hardware.ts";
import type { Runtime } from "../api/fields/runtimes.ts";
import type { ModelFormat } from "../api/fields/shared.ts";
import type { ReplicaTemplate } from "../api/inference-replica.ts";
import type { InferenceServiceSpec } from "../api/inference-service/index.ts";
import { roleSetting } from "../api/inference-service/model-refs.ts";
import type { EngineDescription } from "./contract/description.ts";
import { generic } from "./generic/description.ts";
import { llamacpp } from "./llamacpp/description.ts";
import { ollama } from "./ollama/description.ts";
import { omlx } from "./omlx/description.ts";
import { personaPlex } from "./personaplex/description.ts";
import { sglang } from "./sglang/description.ts";
import { tensorrtLLM } from "./tensorrt-llm/description.ts";
import { tgi } from "./tgi/description.ts";
import { vllm } from "./vllm/description.ts";

/** In order of preference. */
export const ENGINES: readonly EngineDescription[] = [
  llamacpp,
  omlx,
  ollama,
  vllm,
  sglang,
  tgi,
  tensorrtLLM,
  personaPlex,
  generic,
];

type GateRequest = Pick<ReplicaTemplate, "runtime" | "loraAdapters"> & {
  /** As in a service. A replica has no "Auto". */
  readonly gate?: InferenceServiceSpec["endpoint"]["gate"];
  readonly auth?: object | undefined;
  readonly tls?: object | undefined;
  readonly transport?: InferenceServiceSpec["endpoint"]["transport"];
};

/** Runtimes that may serve a model if spec.runtime is absent, in order of preference, with and without a driver on hosts. */
export function runtimesFor(format: ModelFormat, accelerator: Accelerator, mode: Mode): readonly Runtime[] {
  return ENGINES.filter(
    (entry) =>
      canServe(entry, format, accelerator) &&
      (entry.chosenFor ?? entry.formats).includes(format) &&
      (entry.modes ?? [mode]).includes(mode),
  ).map(({ runtime }) => runtime);
}

/** True if the runtime can serve the model. */
export function isRuntimeFor(runtime: Runtime, format: ModelFormat, accelerator: Accelerator): boolean {
  return ENGINES.some((entry) => entry.runtime === runtime && canServe(entry, format, accelerator));
}

function canServe(entry: EngineDescription, format: ModelFormat, accelerator: Accelerator): boolean {
  return entry.formats.includes(format) && entry.accelerators.includes(accelerator);
}

export function engineDescription(runtime: Runtime): EngineDescription | undefined {
  return ENGINES.find((entry) => entry.runtime === runtime);
}

/** Entry in `status.runtimes` of a Host that a replica requires: its runtime, or a program of it. */
export function requiredRuntimeName({
  runtime,
  engine,
}: Pick<ReplicaTemplate, "runtime" | "engine">): string {
  return engineDescription(runtime)?.host?.neededProgram?.(engine) ?? runtime;
}

/** Command that installs an entry of `status.runtimes`. */
export function installHintOf(name: string): string | undefined {
  const known = ENGINES.flatMap(({ runtime, host }) =>
    host === undefined ? [] : [{ name: runtime, install: host.install }, ...(host.programs ?? [])],
  );
  return known.find((one) => one.name === name)?.install;
}

/** True if a runtime with a driver on hosts can serve the format. */
export function isServedOnHosts(format: ModelFormat): boolean {
  return hostRuntimes().some((runtime) => isRuntimeFor(runtime, format, DEFAULT_HOST_ACCELERATOR));
}

/** Runtimes with a driver on hosts. */
export function hostRuntimes(): readonly Runtime[] {
  return ENGINES.filter(({ host }) => host !== undefined).map(({ runtime }) => runtime);
}

/** Accelerator of a host whose operating system is unknown. */
export const DEFAULT_HOST_ACCELERATOR: Accelerator = "metal";
/** Accelerators of hosts. */
export const HOST_ACCELERATORS: readonly Accelerator[] = [DEFAULT_HOST_ACCELERATOR, "cpu"];

/** Accelerator by `status.info.os` of a Host. */
export function hostAccelerator(os: string | undefined): Accelerator {
  return os === "linux" ? "cpu" : DEFAULT_HOST_ACCELERATOR;
}

/** True if the gate is in front of the engine of the replica. */
export function isGated(request: GateRequest): boolean {
  const { runtime, gate, auth, tls, transport } = request;
  if (
    gate === "Always" ||
    tls !== undefined ||
    transport === "Sealed" ||
    engineDescription(runtime)?.isSharedDaemon === true
  )
    return true;
  if (namedAdaptersOf(request).length > 0) return true;
  return gate !== "Never" && auth !== undefined;
}

/** True if the requests of the engine on a host are known: the gate counts them, or the engine reports them. */
export function countsRequestsOnHosts(request: GateRequest): boolean {
  return isGated(request) || engineDescription(request.runtime)?.host?.reportsRequests === true;
}

/** Names under which the gate serves the adapters of a replica, in the order of their identifiers in the engine. */
export function namedAdaptersOf({
  runtime,
  loraAdapters = [],
}: Pick<GateRequest, "runtime" | "loraAdapters">): readonly string[] {
  if (engineDescription(runtime)?.host?.settings.includes(roleSetting("lora")) !== true) return [];
  return loraAdapters.flatMap(({ servedName }) => servedName ?? []);
}

/** Throws `GateNeeded` if the service disables the gate but requires it. */
export function checkGate(request: GateRequest): void {
  if (request.gate !== "Never") return;
  const entry = engineDescription(request.runtime);
  const why =
    entry?.isSharedDaemon === true
      ? `with runtime ${request.runtime} many services share one server, and only the gate gives each its own port and model`
      : request.auth !== undefined && entry?.checksApiKey !== true
        ? `runtime ${request.runtime} cannot check API keys, the gate does`
        : namedAdaptersOf(request).length > 0
          ? `runtime ${request.runtime} does not choose an adapter by the model name of a request, the gate does`
          : undefined;
  if (why !== undefined) throw new MetalbridgeError("GateNeeded", `spec.endpoint.gate is Never, but ${why}`);
}
