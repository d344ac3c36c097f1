/** The demand of a slot of a service on the scheduler. Pure. */
import { parseQuantity } from "../api/fields/quantity.ts";
import type { InferenceReplica } from "../api/inference-replica.ts";
import type { InferenceService } from "../api/inference-service/index.ts";
import type { Model } from "../api/model.ts";
import { keyOf } from "../api/names.ts";
import { requiredRuntimeName } from "../engines/registry.ts";
import { publicSource } from "../models/source/parse.ts";
import { type Claim, uncalibrated } from "./claim.ts";
import { PRIORITIES } from "./placement/priority.ts";
import type { Demand, HostRefusal, MemoryNeed } from "./placement/types.ts";
import type { TemplateWithoutHost } from "./template.ts";

export interface DemandInput {
  readonly service: InferenceService;
  readonly model: Model | undefined;
  /** Template of a replica in the slot. */
  readonly template: TemplateWithoutHost;
  readonly claim: Claim;
  /** Command that installs the program of its BackendRuntime. */
  readonly install?: string | undefined;
  readonly ordinal: number;
  readonly mayPreempt: boolean;
  /** Current replicas of the slot. */
  readonly predecessors: readonly InferenceReplica[];
  readonly refusals: readonly HostRefusal[];
  /** Measured tokens per second by device class. Only the choice among hosts needs them. */
  readonly speeds?: Demand["speeds"] | undefined;
}

export function demandOf(input: DemandInput): Demand {
  const { service, model, template, claim, ordinal, mayPreempt, predecessors, refusals, speeds = {} } = input;
  const { install } = input;
  const { program } = template.engine;
  const { metadata, spec } = service;
  // Services that take turns on a host queue by the time of their requests.
  const wokenAt = service.status?.idle?.state === "Waking" ? service.status.idle.since : undefined;
  const { source, sha256 } = template.model;
  return {
    service: keyOf(metadata),
    ordinal,
    priority: PRIORITIES[spec.priority],
    since: Date.parse(wokenAt ?? metadata.creationTimestamp ?? "") || 0,
    lastHosts: service.status?.idle?.hosts,
    mayPreempt,
    takesTurns: wokenAt !== undefined,
    limit: limitOf(model?.spec.hardware),
    runtime: requiredRuntimeName(template),
    programPath:
      program?.backend !== undefined && program.command[0]?.startsWith("/") ? program.command[0] : undefined,
    install,
    isSealed: template.transport === "Sealed" ? true : undefined,
    memory: needOf(claim),
    speeds,
    // Hosts report sources in this form.
    weights: { source: publicSource(source), sha256 },
    predecessors: predecessors.map((replica) => ({
      replica: keyOf(replica.metadata),
      host: replica.spec.template.hostName,
      sharesWeights: replica.spec.template.model.source === source,
    })),
    choice: {
      hosts: spec.placement.hosts ?? [],
      hostSelector: spec.placement.hostSelector,
      spread: spec.placement.spread,
    },
    refusals,
  };
}

function needOf(claim: Claim): MemoryNeed {
  if (claim.at !== "estimated") return { known: false };
  const on = Object.entries(claim.on ?? {}).map(([accelerator, { claimBytes }]) => [accelerator, claimBytes]);
  return {
    known: true,
    bytes: claim.memory.claimBytes,
    on: on.length === 0 ? undefined : Object.fromEntries(on),
    measurable: measurableOf(claim),
  };
}

/** The buffers that a host's measured coefficients apply to, and all other bytes of the claim. */
function measurableOf(claim: Extract<Claim, { at: "estimated" }>) {
  const { laidOut } = claim;
  if (laidOut === undefined) return undefined;
  const buffers = [laidOut.model, laidOut.draft].filter((bytes) => bytes !== undefined);
  const { claimBytes, computeBytes } = uncalibrated(claim);
  return { buffers, otherBytes: claimBytes - computeBytes - Math.ceil(laidOut.draft ?? 0) };
}

function limitOf(hardware: Model["spec"]["hardware"]): Demand["limit"] {
  const { memoryBudget, memoryFraction } = hardware ?? {};
  const bytes = memoryBudget === undefined ? undefined : parseQuantity(memoryBudget);
  if (bytes !== undefined) return { of: "bytes", bytes };
  return memoryFraction === undefined ? undefined : { of: "fraction", fraction: memoryFraction };
}
