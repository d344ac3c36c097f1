/** Judges whether a service fits any machine of the cluster if nothing else ran on it, and otherwise finds the nearest. Pure. */

import { type ErrorCode, MetalbridgeError } from "../../../src/api/errors.ts";
import type { Flavor } from "../../../src/api/flavors.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { mainModelOf } from "../../../src/api/inference-service/roles.ts";
import type { Model } from "../../../src/api/model.ts";
import type { BackendRevision } from "../../../src/capacity/backend.ts";
import type { HostFit } from "../../../src/capacity/fit/fit.ts";
import { fitOfService } from "../../../src/capacity/fit/service-fit.ts";
import type {
  Fitness,
  NodeRead,
  ReplicaFit,
  ReplicaNeed,
  ReplicaScorer,
} from "../../../src/capacity/fitness.ts";
import { onHostsOf } from "../../../src/capacity/flavors/apply.ts";
import { contradictionOf } from "../../../src/capacity/flavors/contradictions.ts";
import { flavorsOf, platformOfFlavor } from "../../../src/capacity/flavors/narrow.ts";
import type { NamedModels } from "../../../src/capacity/named-models.ts";
import { isAllowedBy } from "../../../src/capacity/placement/filters.ts";
import { hostFacts } from "../../../src/capacity/placement/host-facts.ts";
import { quantizationOfWeights, settingsOnHosts } from "../../../src/capacity/resolve.ts";
import { placeReason, runsOn } from "../../../src/capacity/runs-on.ts";
import { engineDescription } from "../../../src/engines/registry.ts";
import type { Node } from "../../../src/kube/workload-objects.ts";
import { formatBytes } from "../../../src/util/bytes.ts";
import { type FlavoredInput, withStage } from "../../pods/workload/flavors/build.ts";
import { matchesFlavors } from "../../pods/workload/flavors/nodes.ts";
import { podNeed, withPodBackend } from "../../pods/workload/resolve.ts";

export interface PreflightInput extends NamedModels {
  readonly service: InferenceService;
  /** The BackendRuntime that the service names. */
  readonly backend?: BackendRevision | undefined;
  readonly hosts: readonly Host[];
  /** Undefined: nothing is known of them. */
  readonly nodes: readonly ListedNode[] | undefined;
  readonly fitness: Fitness | undefined;
  /** True if the operator states that the cluster gets no new nodes. */
  readonly hasFixedNodes: boolean;
}

export interface ListedNode {
  readonly node: Node;
  /** What fitness reads of it. Called when the node is judged: the first one often fits. */
  readonly read: () => NodeRead;
}

/** Codes of hosts that could run the service once their owners have changed something on them. */
const UNKNOWN_CODES: readonly ErrorCode[] = ["HostRuntimeMissing", "BackendNotAllowed", "HostMemoryUnknown"];

export type Preflight =
  | { readonly at: "fits"; readonly on: string }
  /** Something is unknown, so the service is not refused. */
  | { readonly at: "unknown"; readonly why: string }
  /** `mayGrow` is true if an autoscaler may add a node that holds the service. */
  | { readonly at: "nowhere"; readonly message: string; readonly mayGrow: boolean };

/** Result for one machine. */
interface Candidate {
  readonly name: string;
  readonly fit: ReplicaFit;
  /** Called for one machine only, because it tries many settings. */
  readonly help?: () => string | undefined;
}

export function preflightService(input: PreflightInput): Preflight {
  const { service, model } = input;
  const { replicas, suspend } = service.spec;
  if (suspend || replicas === 0) return { at: "unknown", why: "the service has no replicas" };
  if (model === undefined)
    return { at: "unknown", why: `Model ${mainModelOf(service.spec)} does not exist yet` };
  const { backendRuntime } = service.spec;
  if (backendRuntime !== undefined && input.backend === undefined)
    return { at: "unknown", why: `BackendRuntime ${backendRuntime.name} does not exist yet` };
  const on = runsOn(service, model);
  try {
    // Hosts with room do not count then.
    const place = on === "Pods" ? placeReason(service, model) : undefined;
    return verdictOf(candidatesOf(input, model, on), on !== "Hosts" && !input.hasFixedNodes, place);
  } catch (error) {
    // The status of the service will report other problems.
    if (error instanceof MetalbridgeError) return { at: "unknown", why: error.message };
    throw error;
  }
}

/** All machines that the service may use: with flavors, those of each. */
function* candidatesOf(
  input: PreflightInput,
  model: Model,
  on: ReturnType<typeof runsOn>,
): Iterable<Candidate> {
  const { spec } = input.service;
  const flavors = flavorsOf(spec, model)?.flavors;
  if (flavors === undefined) {
    if (on !== "Pods") yield* onHosts(input, model);
    if (on !== "Hosts") yield* onNodes(input, model);
    return;
  }
  for (const flavor of flavors) {
    if (contradictionOf(spec, flavor) !== undefined) continue;
    try {
      yield* onFlavor(input, model, flavor);
    } catch (error) {
      if (!(error instanceof MetalbridgeError)) throw error;
      yield unknownFlavor(flavor, error.message);
    }
  }
}

function onFlavor(input: PreflightInput, model: Model, flavor: Flavor): Iterable<Candidate> {
  const { service, backend, nodes } = input;
  if (platformOfFlavor(flavor) === "Hosts")
    return onHosts({ ...input, service: onHostsOf(service, flavor) }, model, flavor.params);
  // Labels of nodes do not tell their devices, and the driver may add some to any node.
  if (flavor.deviceClass !== undefined)
    return [unknownFlavor(flavor, `kube-scheduler allocates devices of ${flavor.deviceClass}`)];
  const staged = withStage(service, model, { by: "single", flavors: [flavor] }, backend?.spec.engine);
  const matching = nodes?.filter(({ node }) => matchesFlavors(node, staged.flavors));
  const merged = withPodBackend(staged.service, { ...input, ...staged });
  if (contradictionOf(merged.spec, flavor) !== undefined) return [];
  return onNodes({ ...input, service: staged.service, nodes: matching }, staged.model, staged.inherited);
}

function unknownFlavor({ name }: Flavor, why: string): Candidate {
  return { name: `flavor ${name}`, fit: { at: "unknown", why } };
}

/** Judges no further machine once one fits: every request to create or change a service waits for the answer. */
function verdictOf(machines: Iterable<Candidate>, mayGrow: boolean, place: string | undefined): Preflight {
  const there = place === undefined ? "" : `; the service ${place}`;
  const candidates: Candidate[] = [];
  for (const candidate of machines) {
    if (candidate.fit.at === "fits") return { at: "fits", on: candidate.name };
    candidates.push(candidate);
  }
  const unknown = candidates.find(({ fit }) => fit.at === "unknown");
  if (unknown?.fit.at === "unknown") return { at: "unknown", why: `${unknown.name}: ${unknown.fit.why}` };
  const [nearest] = candidates.flatMap(shortageOf).sort((a, b) => a.short - b.short);
  if (nearest === undefined) {
    const [refusal] = candidates.flatMap(({ name, fit }) =>
      fit.at === "unsupported" ? [`${name}: ${fit.why}`] : [],
    );
    return refusal === undefined
      ? { at: "unknown", why: `no machine is known that may run it${there}` }
      : { at: "nowhere", message: `has a quantization that no machine runs: ${refusal}${there}`, mayGrow };
  }
  const { name, needs, offers, help } = nearest;
  const advice = help?.();
  const hint = advice === undefined ? "" : `; ${advice}`;
  const message = `needs ${formatBytes(needs)}, but the closest machine, ${name}, offers ${formatBytes(offers)}${hint}${there}`;
  return { at: "nowhere", message, mayGrow };
}

function shortageOf({ name, fit, help }: Candidate) {
  if (fit.at !== "tooSmall") return [];
  const { claimBytes: needs, budgetBytes: offers } = fit;
  return [{ name, needs, offers, short: needs - offers, help }];
}

/** Judges hosts like the scheduler, as if all were healthy and empty. Uses the catalog while the header is not read. */
function onHosts(input: PreflightInput, model: Model, params?: Flavor["params"]): readonly Candidate[] {
  const { service, backend, draftModel, projectorModel, loraModels, hosts } = input;
  const scorer = scorerFor(input, model, settingsOnHosts({ service, backend, params }, model));
  try {
    const healthy = hosts.map(asIfHealthy);
    const models = { model, draftModel, projectorModel, loraModels };
    const objects = { service, backend, params, ...models, hosts: healthy, replicas: [], services: [] };
    const { report } = fitOfService(objects, 0);
    const byName = new Map(hosts.map((host) => [host.metadata.name, host]));
    return report.hosts.flatMap((fit) => hostCandidate(fit, byName.get(fit.host), scorer));
  } catch (error) {
    // A Model whose source cannot be read needs no less memory than before it failed.
    const isUnread =
      error instanceof MetalbridgeError && ["ModelNotReady", "ModelFailed"].includes(error.code);
    if (!isUnread || scorer === undefined) throw error;
    return hosts.flatMap((host) => unreadCandidate(host, service, scorer));
  }
}

/** While it is unknown which runtimes can serve the model, a runtime that the spec names must be installed. */
function unreadCandidate(host: Host, { spec }: InferenceService, scorer: ReplicaScorer): Candidate[] {
  const { name } = host.metadata;
  const facts = hostFacts(host);
  const { hosts = [], hostSelector } = spec.placement;
  if (!isAllowedBy({ hosts, hostSelector }, facts)) return [];
  const { runtime } = spec;
  // A generic program needs no installed runtime.
  const isNamed = runtime !== undefined && engineDescription(runtime)?.program === undefined;
  if (isNamed && !facts.runtimes.includes(runtime))
    return [{ name, fit: { at: "unknown", why: `${runtime} is not installed` } }];
  return [{ name, fit: scorer.fitOn({ host }), help: () => scorer.smallerFitOn({ host }) }];
}

function hostCandidate(fit: HostFit, host: Host | undefined, scorer?: ReplicaScorer): Candidate[] {
  const { host: name, fits, claimBytes, budgetBytes, helps = [] } = fit;
  if (fits === true && claimBytes !== undefined && budgetBytes !== undefined)
    return [{ name, fit: { at: "fits", claimBytes, budgetBytes } }];
  if (fits === "unknown") return [{ name, fit: { at: "unknown", why: "only the host can read the model" } }];
  if (fit.code !== undefined && UNKNOWN_CODES.includes(fit.code))
    return [{ name, fit: { at: "unknown", why: fit.message ?? fit.code } }];
  // Otherwise the spec of the service excludes the host.
  if (fit.code !== "HostMemoryShort" || claimBytes === undefined || budgetBytes === undefined) return [];
  const [setting] = helps.map(({ text }) => `with ${text}`);
  const help = () => (host && scorer?.smallerFitOn({ host })) ?? setting;
  return [{ name, fit: { at: "tooSmall", claimBytes, budgetBytes }, help }];
}

/** Ignores outages and drains, which are temporary, unlike the size of a machine. */
function asIfHealthy(host: Host): Host {
  const { status } = host;
  const now = "1970-01-01T00:00:00Z";
  const conditions = ["Ready", "Reachable"].map((type) => ({
    type,
    status: "True" as const,
    reason: "AsIf",
    message: "",
    lastTransitionTime: now,
  }));
  return {
    ...host,
    spec: { ...host.spec, unschedulable: false, drain: false },
    status: { ...status, conditions },
  };
}

function* onNodes(
  { nodes, ...input }: PreflightInput,
  model: Model,
  inherited?: FlavoredInput["inherited"],
): Iterable<Candidate> {
  const { service, draftModel: draft, projectorModel: projector, loraModels = [] } = input;
  const adapters = loraModels.filter((one) => one !== undefined);
  const merged = withPodBackend(service, { ...input, model, inherited });
  const pod = podNeed({ service: merged, model, draft, projector, adapters });
  const scorer = scorerFor(input, model, pod.settings, pod.claimBytes);
  if (nodes === undefined) yield { name: "nodes", fit: { at: "unknown", why: "fitness scores are off" } };
  if (scorer === undefined || nodes === undefined) return;
  for (const { read } of nodes) {
    const place = { node: read(), pod };
    const fit = scorer.fitOn(place);
    if (fit.at !== "noGpus") yield { name: place.node.name, fit, help: () => scorer.smallerFitOn(place) };
  }
}

function scorerFor(
  { fitness }: Pick<PreflightInput, "fitness">,
  model: Model,
  settings: ReplicaNeed["settings"],
  claimBytes?: ReplicaNeed["claimBytes"],
): ReplicaScorer | undefined {
  const { source, files } = model.spec;
  const quantization = quantizationOfWeights(model);
  return fitness?.forReplica({ source, quantization, files, settings, claimBytes });
}
