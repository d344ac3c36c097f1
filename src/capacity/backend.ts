/** Merges a BackendRuntime into a service: runtime, then its recommended configuration, then the service. Pure. */
import { type BackendRuntimeSpec, CONFIG_DEFAULT, CONFIG_SPECULATIVE } from "../api/backend-runtime.ts";
import { MetalbridgeError } from "../api/errors.ts";
import type { Accelerator } from "../api/fields/hardware.ts";
import { parseQuantity } from "../api/fields/quantity.ts";
import type { Resources } from "../api/fields/resources.ts";
import type { ModelFormat } from "../api/fields/shared.ts";
import type { InferenceServiceSpec } from "../api/inference-service/index.ts";
import { modelNamesOf } from "../api/inference-service/roles.ts";
import type { RunsOn } from "../api/inference-service/rollout.ts";
import type { InheritedArguments } from "../engines/contract/arguments.ts";

/** The content of a BackendRuntime that a service uses, which may be an earlier revision. */
export interface BackendRevision {
  readonly name: string;
  readonly spec: BackendRuntimeSpec;
}

/** Determines which parts of a BackendRuntime apply to a service. */
export interface BackendUse {
  readonly on: "Hosts" | "Pods";
  readonly format: ModelFormat;
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
  const config = configOf(spec, backend);
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

/** The arguments in front of those of the service, once its BackendRuntime is merged. */
export function argumentsOfBackend(
  { extraArgs = [] }: InferenceServiceSpec,
  merged: InferenceServiceSpec,
  { name }: BackendRevision,
): InheritedArguments {
  const count = (merged.extraArgs ?? []).length - extraArgs.length;
  return { origin: `args of BackendRuntime ${name}`, count };
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

/** Throws `BackendConfigNotFound`, and `BackendNotForService` for a configuration that would have no effect. */
function configOf(spec: InferenceServiceSpec, backend: BackendRevision): RecommendedConfig | undefined {
  const { name } = backend;
  const requested = spec.backendRuntime?.config;
  const found = findConfig(spec, backend);
  if (requested === undefined) return found;
  if (found === undefined) {
    const names = backend.spec.recommendedConfigs?.map((one) => one.name).join(", ") || "none";
    throw new MetalbridgeError(
      "BackendConfigNotFound",
      `BackendRuntime ${name} has no recommended configuration ${requested}; it has ${names}`,
    );
  }
  const isEmpty = Object.values(found).filter((one) => one !== undefined).length === 1;
  if (
    requested === CONFIG_SPECULATIVE &&
    isEmpty &&
    !hasDraft(spec) &&
    spec.speculativeDecoding === undefined
  )
    throw new MetalbridgeError(
      "BackendNotForService",
      `configuration ${requested} of BackendRuntime ${name} needs a draft model: add one with role draft to spec.modelRefs, or set spec.speculativeDecoding to a type that needs none`,
    );
  return found;
}

function findConfig(
  spec: InferenceServiceSpec,
  { spec: { recommendedConfigs = [] } }: BackendRevision,
): RecommendedConfig | undefined {
  const find = (requested: string) => recommendedConfigs.find((one) => one.name === requested);
  if (spec.backendRuntime?.config !== undefined) return find(spec.backendRuntime.config);
  return (hasDraft(spec) ? find(CONFIG_SPECULATIVE) : undefined) ?? find(CONFIG_DEFAULT);
}

/** True if the service names a draft model, whether or not it exists. */
function hasDraft(spec: InferenceServiceSpec): boolean {
  return modelNamesOf(spec).draft !== undefined;
}

/** Types of metrics that are read from pods. */
const METRICS_OF_PODS = ["Pods", "Resource", "ContainerResource"];

/** Autoscaling of a service, with the trigger of its configuration unless the service says itself what to scale by. */
export function autoscalingWithBackend(
  spec: InferenceServiceSpec,
  backend: BackendRevision | undefined,
  on: RunsOn,
): InferenceServiceSpec["autoscaling"] {
  const { autoscaling: own } = spec;
  if (own === undefined || backend === undefined) return own;
  if (own.metrics !== undefined || own.triggers !== undefined || own.targetRequests !== undefined) return own;
  const config = findConfig(spec, backend);
  const { metrics, behavior } = config?.scaleTrigger?.hpa ?? {};
  const isUsable =
    own.engine === "HPA" && (on === "Pods" || !metrics?.some(({ type }) => METRICS_OF_PODS.includes(type)));
  return { ...own, metrics: isUsable ? metrics : undefined, behavior: own.behavior ?? behavior };
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
    resources: [config?.resources, spec.resources].reduce(mergedResources, resources),
    sharedMemory: spec.sharedMemory ?? config?.sharedMemory ?? sharedMemory,
  };
}

/**
 * Merges by resource. Kubernetes refuses a request above its limit, so what the overriding object sets stays, and the other one of
 * the two follows.
 */
function mergedResources(base: Resources | undefined, own: Resources | undefined): Resources {
  const limits = { ...base?.limits, ...own?.limits };
  const merged = { ...base, ...own, limits };
  for (const name of ["cpu", "memory"] as const) {
    const field = name === "memory" && merged.hostMemory !== undefined ? "hostMemory" : name;
    const [request, limit] = [merged[field], limits[name]];
    if (request === undefined || limit === undefined) continue;
    if ((parseQuantity(request) ?? 0) <= (parseQuantity(limit) ?? Number.POSITIVE_INFINITY)) continue;
    if (own?.limits?.[name] === undefined) limits[name] = request;
    else merged[field] = limit;
  }
  return Object.keys(limits).length === 0 ? { ...base, ...own } : merged;
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
