/** Whether a service fits any machine of the cluster, were nothing else on it; and if none, which comes nearest. Pure. */

import type { Match } from "../../fitness/catalog/match.ts";
import { quantizationIn } from "../../fitness/catalog/quantizations.ts";
import { type Machine, machineOf } from "../../fitness/scoring/machine.ts";
import { type NodeRead, nodeMachineFor } from "../../fitness/scoring/node.ts";
import {
  fitReplica,
  type NeedInput,
  type ReplicaFit,
  type ReplicaNeed,
  replicaNeedOf,
  smallerFit,
} from "../../fitness/scoring/replica-fit.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { Host } from "../../src/api/host.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { Model } from "../../src/api/model.ts";
import type { HostFit } from "../../src/capacity/fit/fit.ts";
import { fitOfService } from "../../src/capacity/fit/service-fit.ts";
import { isAllowedBy } from "../../src/capacity/placement/filters.ts";
import { hostFacts } from "../../src/capacity/placement/host-facts.ts";
import { runsOn } from "../../src/capacity/runs-on.ts";
import { toEngineSettings } from "../../src/capacity/template.ts";
import { engineDescription } from "../../src/engines/registry.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import { podNeed } from "../workload/resolve.ts";

export interface PreflightInput {
  readonly service: InferenceService;
  readonly model: Model | undefined;
  /** Of speculativeDecoding.draftModelRef, and of loraAdapters in their order. */
  readonly draftModel?: Model | undefined;
  readonly loraModels?: readonly (Model | undefined)[];
  readonly hosts: readonly Host[];
  readonly nodes: readonly NodeRead[];
  readonly match: (name: string) => Match;
  /** The operator says that the cluster gets no other nodes than those that exist. */
  readonly hasFixedNodes: boolean;
}

export type Preflight =
  | { readonly at: "fits"; readonly on: string }
  /** Something is not known, so nothing is refused. */
  | { readonly at: "unknown"; readonly why: string }
  /** `mayGrow`: a node that does not exist yet, of a group that an autoscaler can add to, may hold it. */
  | { readonly at: "nowhere"; readonly message: string; readonly mayGrow: boolean };

/** One machine's answer. */
interface Candidate {
  readonly name: string;
  readonly fit: ReplicaFit;
  readonly help?: string | undefined;
}

export function preflightService(input: PreflightInput): Preflight {
  const { service, model } = input;
  const { replicas, suspend, modelRef } = service.spec;
  if (suspend || replicas === 0) return { at: "unknown", why: "no replica is wanted" };
  if (model === undefined) return { at: "unknown", why: `Model ${modelRef} does not exist yet` };
  const on = runsOn(service, model);
  try {
    const candidates = [
      ...(on === "Pods" ? [] : onHosts(input, model)),
      ...(on === "Hosts" ? [] : onNodes(input, model)),
    ];
    return verdictOf(candidates, on !== "Hosts" && !input.hasFixedNodes);
  } catch (error) {
    // What is wrong with it otherwise, its status says.
    if (error instanceof MetalbridgeError) return { at: "unknown", why: error.message };
    throw error;
  }
}

function verdictOf(candidates: readonly Candidate[], mayGrow: boolean): Preflight {
  const fitting = candidates.find(({ fit }) => fit.at === "fits");
  if (fitting !== undefined) return { at: "fits", on: fitting.name };
  const unknown = candidates.find(({ fit }) => fit.at === "unknown");
  if (unknown?.fit.at === "unknown") return { at: "unknown", why: `${unknown.name}: ${unknown.fit.why}` };
  const [nearest] = candidates.flatMap(shortageOf).sort((a, b) => a.short - b.short);
  if (nearest === undefined) return { at: "unknown", why: "no machine is known that may run it" };
  const { name, needs, offers, help } = nearest;
  const hint = help === undefined ? "" : `; ${help}`;
  const message = `needs ${formatBytes(needs)}, and the machine that comes nearest, ${name}, offers ${formatBytes(offers)}${hint}`;
  return { at: "nowhere", message, mayGrow };
}

function shortageOf({ name, fit, help }: Candidate) {
  if (fit.at !== "tooSmall") return [];
  const { claimBytes: needs, budgetBytes: offers } = fit;
  return [{ name, needs, offers, short: needs - offers, help }];
}

/** As the scheduler would judge them, were they all well and empty; by the catalog while no header is read. */
function onHosts(input: PreflightInput, model: Model): readonly Candidate[] {
  const { service, draftModel, loraModels, hosts } = input;
  const { gguf } = model.status ?? {};
  const need = needWith(input, model, toEngineSettings(service.spec, { gguf }));
  try {
    const well = hosts.map(asIfWell);
    const objects = { service, model, draftModel, loraModels, hosts: well, replicas: [], services: [] };
    const { report } = fitOfService(objects, 0);
    const byName = new Map(hosts.map((host) => [host.metadata.name, host]));
    return report.hosts.flatMap((fit) => hostCandidate(fit, byName.get(fit.host), need));
  } catch (error) {
    if (!(error instanceof MetalbridgeError) || error.code !== "ModelNotReady") throw error;
    return hosts.flatMap((host) => unreadCandidate(host, service, need));
  }
}

/** While nothing says which runtimes can serve the model, one that is named must be there. */
function unreadCandidate(host: Host, { spec }: InferenceService, need: ReplicaNeed): Candidate[] {
  const { name } = host.metadata;
  const facts = hostFacts(host);
  const { hosts = [], hostSelector, spread } = spec.placement;
  if (!isAllowedBy({ hosts, hostSelector, spread }, facts)) return [];
  const { runtime } = spec;
  // A program that the service describes is its own affair.
  const isNamed = runtime !== undefined && engineDescription(runtime)?.program === undefined;
  if (isNamed && !facts.runtimes.includes(runtime))
    return [{ name, fit: { at: "unknown", why: `${runtime} is not installed` } }];
  const read = machineOf(host);
  if (read.at !== "known") return [{ name, fit: { at: "unknown", why: read.why } }];
  return [{ name, fit: fitReplica(need, read.machine), help: smallerFit(need, read.machine) }];
}

function hostCandidate(fit: HostFit, host: Host | undefined, need: ReplicaNeed): Candidate[] {
  const { host: name, fits, claimBytes, budgetBytes, helps = [] } = fit;
  if (fits === true && claimBytes !== undefined && budgetBytes !== undefined)
    return [{ name, fit: { at: "fits", claimBytes, budgetBytes } }];
  if (fits === "unknown") return [{ name, fit: { at: "unknown", why: "only the host can read the model" } }];
  if (fit.code === "HostRuntimeMissing" || fit.code === "HostMemoryUnknown")
    return [{ name, fit: { at: "unknown", why: fit.message ?? fit.code } }];
  // Else the service itself rules the host out.
  if (fit.code !== "HostMemoryShort" || claimBytes === undefined || budgetBytes === undefined) return [];
  const machine = host === undefined ? undefined : known(machineOf(host));
  const [setting] = helps.map(({ text }) => `with ${text}`);
  const help = (machine && smallerFit(need, machine)) ?? setting;
  return [{ name, fit: { at: "tooSmall", claimBytes, budgetBytes }, help }];
}

function known(read: ReturnType<typeof machineOf>): Machine | undefined {
  return read.at === "known" ? read.machine : undefined;
}

/** Outages and drains pass; the size of a machine does not. */
function asIfWell(host: Host): Host {
  const { status } = host;
  const now = "1970-01-01T00:00:00Z";
  const conditions = ["Ready", "Reachable"].map((type) => ({
    ...{ type, status: "True" as const, reason: "AsIf", message: "", lastTransitionTime: now },
  }));
  return {
    ...host,
    spec: { ...host.spec, unschedulable: false, drain: false },
    status: { ...status, conditions },
  };
}

function onNodes({ nodes, ...input }: PreflightInput, model: Model): readonly Candidate[] {
  const { service, draftModel: draft, loraModels = [] } = input;
  const adapters = loraModels.filter((one) => one !== undefined);
  const pod = podNeed({ service, model, draft, adapters });
  const need = needWith(input, model, pod.settings, pod.claimBytes);
  return nodes.flatMap((node): Candidate[] => {
    const { name } = node;
    const read = nodeMachineFor(node, pod);
    if (read.at === "noGpus") return [];
    if (read.at !== "known") return [{ name, fit: { at: "unknown", why: read.why } }];
    return [{ name, fit: fitReplica(need, read.machine), help: smallerFit(need, read.machine) }];
  });
}

function needWith(
  { match }: Pick<PreflightInput, "match">,
  { spec: { source, quantization, files = [] }, status }: Model,
  settings: NeedInput["settings"],
  claimBytes?: ReplicaNeed["claimBytes"],
): ReplicaNeed {
  const inFiles = files.map(quantizationIn).find((one) => one !== undefined);
  const named = status?.gguf?.quantization ?? quantization ?? quantizationIn(source) ?? inFiles;
  return replicaNeedOf({ source, quantization: named, match, settings, claimBytes });
}
