/** Fields of InferenceService.spec that hosts or pods honor. SpecHonored=False lists the others; none is ignored silently. */

import { engineFields } from "../api/engine-settings.ts";
import type { Runtime } from "../api/fields/runtimes.ts";
import { HOST_LOST_SECONDS_DEFAULT } from "../api/inference-replica.ts";
import type { InferenceServiceSpec } from "../api/inference-service/index.ts";
import { roleSetting } from "../api/inference-service/model-refs.ts";
import { podFields } from "../api/inference-service/pods.ts";
import type { RunsOn } from "../api/inference-service/rollout.ts";
import { isOwnKey } from "../api/owned.ts";
import { readProbes } from "../api/probes.ts";
import { engineDescription } from "../engines/registry.ts";

/** Settings that readProbes reads. */
const HOST_PROBE_SETTINGS = [
  "startup.periodSeconds",
  "startup.failureThreshold",
  "liveness.timeoutSeconds",
  "liveness.failureThreshold",
];

const PODS_ONLY = Object.keys(podFields).filter((field) => field !== "probeOverrides");

/**
 * Sorted paths of the fields that are set and not honored. If a value cannot be used, the value that is used instead follows.
 * Defaults of the API server do not count.
 */
export function unhonoredFields(
  spec: InferenceServiceSpec,
  on: Exclude<RunsOn, "Auto">,
  runtime: Runtime,
): string[] {
  const fields = on === "Hosts" ? onHosts(spec, runtime) : inPods(spec, runtime);
  return fields.sort();
}

function onHosts(spec: InferenceServiceSpec, runtime: Runtime): string[] {
  const host = engineDescription(runtime)?.host;
  const honored = host?.settings ?? [];
  const fields = [
    ...Object.keys(engineFields),
    "speculativeDecoding",
    "loraAdapters",
    "inFlightProbe",
    "tty",
    ...PODS_ONLY,
  ];
  return [
    ...fields.filter((field) => !honored.includes(field) && isSet(spec, field)),
    ...(host?.unhonoredParts?.(spec) ?? []),
    ...unhonoredRoles(spec, honored),
    ...uncountedArgs(spec, runtime),
    ...foreignProbes(spec.probeOverrides, host?.probes ?? []),
    ...readProbes(spec.probeOverrides).changed.map((setting) => `probeOverrides.${setting}`),
  ].map((field) => `spec.${field}`);
}

/** Roles in spec.modelRefs that the runtime does not load. */
function unhonoredRoles({ modelRefs = [] }: InferenceServiceSpec, honored: readonly string[]): string[] {
  return modelRefs.flatMap(({ name, role = "main" }) =>
    role === "main" || honored.includes(roleSetting(role)) ? [] : [`modelRefs ${name} (${role})`],
  );
}

function uncountedArgs({ extraArgs = [] }: InferenceServiceSpec, runtime: Runtime): string[] {
  const given = extraArgs.map((argument) => argument.split("=", 1)[0]);
  const uncounted =
    engineDescription(runtime)?.host?.claims.uncountedArgs.filter((flag) => given.includes(flag)) ?? [];
  return uncounted.map((flag) => `extraArgs ${flag} (used, but not in the memory claim)`);
}

/** Settings of probes that have no effect without a kubelet: the engine driver decides how to probe. */
function foreignProbes(overrides: InferenceServiceSpec["probeOverrides"], own: readonly string[]): string[] {
  return Object.entries(overrides ?? {}).flatMap(([probe, settings]) =>
    Object.keys(settings ?? {})
      .filter((setting) => ![...HOST_PROBE_SETTINGS, ...own].includes(`${probe}.${setting}`))
      .map((setting) => `probeOverrides.${probe}.${setting}`),
  );
}

/** Fields that apply to single runtimes only. */
const RUNTIME_FIELDS = [
  ...Object.keys(engineFields),
  ...["speculativeDecoding", "loraAdapters", "tty", "command", "args"],
  ...["vllmConfig", "tgiConfig", "sglangConfig", "personaPlexConfig"],
];

/** Pods serve the content that is on the volume of the Model. */
const NOT_IMPLEMENTED = ["modelRevision"];

/** A LeaderWorkerSet cannot be paused, and the age of a pod is not that of its group. */
const NOT_IN_GROUPS = ["rolloutPolicy", "maxPodLifetimeSeconds", "maxPodLifetimeIdleTimeoutSeconds"];

function inPods(spec: InferenceServiceSpec, runtime: Runtime): string[] {
  const { settings: honored = [], unhonoredParts } = engineDescription(runtime)?.pod ?? {};
  const { endpoint, podLabels = {}, podAnnotations = {}, hostLostSeconds } = spec;
  const { hosts = [], hostSelector, on } = spec.placement;
  const ownKeys = (field: string, map: Readonly<Record<string, string>>) =>
    Object.keys(map).flatMap((key) => (isOwnKey(key) ? [`${field} ${key}`] : []));
  return [
    ...(hosts.length > 0 || hostSelector !== undefined ? ["placement"] : []),
    // Pods have tolerationSeconds instead.
    ...(hostLostSeconds !== HOST_LOST_SECONDS_DEFAULT && on !== "Auto" ? ["hostLostSeconds"] : []),
    ...RUNTIME_FIELDS.filter((field) => !honored.includes(field) && isSet(spec, field)),
    ...NOT_IMPLEMENTED.filter((field) => isSet(spec, field)),
    ...(spec.group === undefined ? [] : NOT_IN_GROUPS.filter((field) => isSet(spec, field))),
    ...(endpoint.gate === undefined || endpoint.gate === "Auto" ? [] : ["endpoint.gate"]),
    ...(endpoint.transport === "Sealed" ? ["endpoint.transport"] : []),
    ...unhonoredRoles(spec, honored),
    ...(unhonoredParts?.(spec) ?? []),
    ...ownKeys("podLabels", podLabels),
    ...ownKeys("podAnnotations", podAnnotations),
  ].map((field) => `spec.${field}`);
}

/** Empty lists and objects count as not set, and so does `skipModelInit: false`, but not `flashAttention: false`. */
function isSet(spec: InferenceServiceSpec, field: string): boolean {
  const value = spec[field as keyof InferenceServiceSpec];
  if (value === undefined || value === null) return false;
  if (value === false) return field in engineFields;
  return typeof value !== "object" || Object.keys(value).length > 0;
}
