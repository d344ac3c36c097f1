/** Merges a BackendRuntime into a service: runtime, then its recommended configuration, then the service. Pure. */
import type { BackendRuntimeSpec } from "../api/backend-runtime.ts";
import { MetalbridgeError } from "../api/errors.ts";
import type { Accelerator } from "../api/fields/hardware.ts";
import type { ModelFormat } from "../api/fields/shared.ts";
import type { InferenceServiceSpec } from "../api/inference-service/index.ts";

/** The content of a BackendRuntime that a service uses, which may be an earlier revision. */
export interface BackendRevision {
  readonly name: string;
  readonly spec: BackendRuntimeSpec;
}

/** Determines which parts of a BackendRuntime apply to a service. */
export interface BackendUse {
  readonly on: "Hosts" | "Pods";
  readonly format: ModelFormat;
  readonly hasDraft: boolean;
  /** Accelerator of the pods. The configuration of a host decides which BackendRuntimes it allows. */
  readonly accelerator?: Accelerator | undefined;
}

type RecommendedConfig = NonNullable<BackendRuntimeSpec["recommendedConfigs"]>[number];
type Probe = Readonly<Record<string, unknown>>;
type Variable = NonNullable<BackendRuntimeSpec["env"]>[number];

const HANDLERS = ["httpGet", "tcpSocket", "exec", "grpc"];

/** The service as if it had the settings of the BackendRuntime itself. Throws `BackendConfigNotFound` and `BackendNotForService`. */
export function withBackend(
  spec: InferenceServiceSpec,
  backend: BackendRevision,
  use: BackendUse,
): InferenceServiceSpec {
  checkUse(spec, backend, use);
  const config = configOf(spec, backend, use.hasDraft);
  const { engine, gauges } = backend.spec;
  const isProgram = engine === "generic";
  const program = isProgram
    ? programOf(spec, backend, config, use.on)
    : { extraArgs: joined(backend.spec.args, config?.args, spec.extraArgs) };
  // The drivers of our own engines count requests in their own way on hosts.
  const inFlight = (isProgram || use.on === "Pods") && {
    inFlightProbe: spec.inFlightProbe ?? inFlightOf(gauges),
  };
  const probeOverrides = probesWithBackend(spec, backend, use.on);
  const merged: InferenceServiceSpec = { ...spec, ...program, runtime: engine, probeOverrides, ...inFlight };
  return use.on === "Hosts" ? merged : withPodSettings(merged, backend.spec, config);
}

/** The probes of a service, each with the settings of its BackendRuntime. The drivers of our own engines probe in their own way on hosts. */
export function probesWithBackend(
  { probeOverrides: overrides }: InferenceServiceSpec,
  backend: BackendRevision | undefined,
  on: BackendUse["on"],
): InferenceServiceSpec["probeOverrides"] {
  const { probes, engine } = backend?.spec ?? {};
  if (probes === undefined || (on === "Hosts" && engine !== "generic")) return overrides;
  const names = ["startup", "liveness", "readiness"] as const;
  return Object.fromEntries(names.map((name) => [name, mergedProbe(probes[name], overrides?.[name])]));
}

function checkUse(
  { mode = "chat" }: InferenceServiceSpec,
  { name, spec }: BackendRevision,
  use: BackendUse,
): void {
  const { formats, modes, accelerators, engine, image, host } = spec;
  const refused =
    (use.on === "Hosts" &&
      engine === "generic" &&
      host === undefined &&
      "has no host section, so it does not run on hosts") ||
    (use.on === "Pods" &&
      engine === "generic" &&
      image === undefined &&
      "has no image, so it does not run in pods") ||
    (formats?.includes(use.format) === false &&
      `does not load format ${use.format}, only ${formats.join(", ")}`) ||
    (modes?.includes(mode) === false && `does not serve mode ${mode}, only ${modes.join(", ")}`) ||
    (use.accelerator !== undefined &&
      accelerators?.includes(use.accelerator) === false &&
      `does not run on accelerator ${use.accelerator}, only on ${accelerators.join(", ")}`);
  if (refused) throw new MetalbridgeError("BackendNotForService", `BackendRuntime ${name} ${refused}`);
}

function configOf(
  { backendRuntime }: InferenceServiceSpec,
  { name, spec: { recommendedConfigs = [] } }: BackendRevision,
  hasDraft: boolean,
): RecommendedConfig | undefined {
  const find = (requested: string) => recommendedConfigs.find((one) => one.name === requested);
  const requested = backendRuntime?.config;
  if (requested === undefined)
    return (hasDraft ? find("speculative-decoding") : undefined) ?? find("default");
  const found = find(requested);
  if (found !== undefined) return found;
  const names = recommendedConfigs.map((one) => one.name).join(", ") || "none";
  throw new MetalbridgeError(
    "BackendConfigNotFound",
    `BackendRuntime ${name} has no recommended configuration ${requested}; it has ${names}`,
  );
}

function programOf(
  spec: InferenceServiceSpec,
  { name, spec: { command, args, env, host } }: BackendRevision,
  config: RecommendedConfig | undefined,
  on: BackendUse["on"],
): Pick<InferenceServiceSpec, "command" | "args" | "env"> {
  const base = on === "Hosts" ? { ...host } : { command, args, env };
  if (on === "Hosts") checkVariables(spec.env, [...(base.env ?? []), ...(config?.env ?? [])], name);
  return {
    command: base.command,
    args: joined(base.args, config?.args, spec.args),
    env: mergedVariables([base.env, config?.env], spec.env),
  };
}

/** On a host, a variable can make a program load code, so a service sets only those that the BackendRuntime names. */
function checkVariables(env: InferenceServiceSpec["env"], named: readonly Variable[], backend: string): void {
  const others = (env ?? [])
    .map(({ name }) => String(name))
    .filter((one) => !named.some(({ name }) => name === one));
  if (others.length === 0) return;
  throw new MetalbridgeError(
    "CommandInvalid",
    `spec.env sets ${others.join(", ")}, but on hosts a service sets only variables that BackendRuntime ${backend} names`,
    { summary: `remove it from spec.env, or add it to host.env of BackendRuntime ${backend}` },
  );
}

function withPodSettings(
  spec: InferenceServiceSpec,
  { engine, image, version, env, port, lifecycle, resources, sharedMemory }: BackendRuntimeSpec,
  config: RecommendedConfig | undefined,
): InferenceServiceSpec {
  const tag = spec.backendRuntime?.version ?? version;
  return {
    ...spec,
    // A program's variables are merged already.
    env: engine === "generic" ? spec.env : mergedVariables([env, config?.env], spec.env),
    image: spec.image ?? (image && tagged(image, tag)),
    containerPort: spec.containerPort ?? port,
    lifecycle: spec.lifecycle ?? lifecycle,
    resources: { ...resources, ...config?.resources, ...spec.resources },
    sharedMemory: spec.sharedMemory ?? config?.sharedMemory ?? sharedMemory,
  };
}

/** Replaces the tag of an image. An image with a digest keeps it. */
export function tagged(image: string, tag: string | undefined): string {
  if (tag === undefined || image.includes("@")) return image;
  return `${image.replace(/:[^/:]+$/, "")}:${tag}`;
}

function joined(...lists: (readonly string[] | undefined)[]): string[] | undefined {
  const all = lists.flatMap((list) => list ?? []);
  return all.length === 0 ? undefined : all;
}

/**
 * Variables of a BackendRuntime, overridden by those of the service. Each keeps its first position, so that an override changes
 * no other part of the template.
 */
function mergedVariables(
  backend: readonly (readonly Variable[] | undefined)[],
  own: InferenceServiceSpec["env"] = [],
): InferenceServiceSpec["env"] {
  const theirs = backend.flatMap((list) => list ?? []).map(({ name, value = "" }) => ({ name, value }));
  const byName = new Map([...theirs, ...own].map((one) => [String(one.name), one]));
  return byName.size === 0 ? undefined : [...byName.values()];
}

/** A probe has one handler: that of the service replaces that of the runtime. */
function mergedProbe(base: Probe | undefined, own: Probe | undefined): Probe | undefined {
  if (base === undefined || own === undefined) return own ?? base;
  const hasHandler = HANDLERS.some((handler) => handler in own);
  const kept = Object.entries(base).filter(([key]) => !hasHandler || !HANDLERS.includes(key));
  return { ...Object.fromEntries(kept), ...own };
}

function inFlightOf(gauges: BackendRuntimeSpec["gauges"]): InferenceServiceSpec["inFlightProbe"] {
  return gauges && { path: gauges.path, gauges: [...gauges.running, ...gauges.queued] };
}
