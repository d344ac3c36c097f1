/** The memory claim of a template, or the reason why it is unknown. Pure. */

import { MetalbridgeError } from "../api/errors.ts";
import type { Accelerator } from "../api/fields/hardware.ts";
import type { Host } from "../api/host.ts";
import type { InferenceReplica, ReplicaMemory, ReplicaModel } from "../api/inference-replica.ts";
import type { Model } from "../api/model.ts";
import type { BufferLayout } from "../engines/contract/claims.ts";
import {
  DEFAULT_HOST_ACCELERATOR,
  engineDescription,
  HOST_ACCELERATORS,
  hostAccelerator,
} from "../engines/registry.ts";
import type { GgufSummary } from "../models/gguf/summary.ts";
import { isReadByHost, parseSource, publicSource } from "../models/source/parse.ts";
import type { ClaimWith } from "./fit/variants.ts";
import { type ClaimHost, measuredBytes } from "./placement/types.ts";
import type { TemplateWithoutHost } from "./template.ts";

/** Claim of replicas whose memory only their host can determine. */
export const UNKNOWN_MEMORY: ReplicaMemory = {
  claimBytes: 0,
  weightsBytes: 0,
  kvBytes: 0,
  computeBytes: 0,
  outputBytes: 0,
  promptCacheBytes: 0,
  projectorBytes: 0,
  draftBytes: 0,
  loraBytes: 0,
  overheadBytes: 0,
};

export type Claim =
  | {
      readonly at: "estimated";
      /** Claim on a host whose accelerator is unknown. */
      readonly memory: ReplicaMemory;
      /** Claims by accelerator of the host. */
      readonly on?: Readonly<Partial<Record<Accelerator, ReplicaMemory>>>;
      /** Buffers that the coefficients of hosts apply to, if hosts measure the compute buffers of this engine. */
      readonly laidOut?: BufferLayout | undefined;
    }
  /** Only the host can read the source, so its agent decides on admission. */
  | { readonly at: "hostDecides" }
  | { readonly at: "unsizable"; readonly message: string };

type EstimatedClaim = Extract<Claim, { at: "estimated" }>;

export interface ClaimInput {
  readonly template: TemplateWithoutHost;
  readonly model: Model;
  readonly draftModel: Model | undefined;
  /** Replicas of this model, whose agents report the files on their hosts. */
  readonly replicas: readonly InferenceReplica[];
}

/** The claim on a host, by its accelerator and its measured coefficients. */
export function memoryOn(claim: EstimatedClaim, host: Host | undefined): ReplicaMemory {
  if (host === undefined) return claim.memory;
  const accelerator = hostAccelerator(host.status?.info?.os);
  return memoryWith(claim, { accelerator, compute: host.status?.memory?.compute });
}

function memoryWith(claim: EstimatedClaim, { accelerator, compute }: ClaimHost): ReplicaMemory {
  const { memory, on, laidOut } = claim;
  if (compute === undefined || laidOut === undefined)
    return (accelerator === undefined ? undefined : on?.[accelerator]) ?? memory;
  const plain = uncalibrated(claim);
  const computeBytes = measuredBytes(compute, laidOut.model);
  const draftBytes =
    laidOut.draft === undefined
      ? plain.draftBytes
      : plain.draftBytes - Math.ceil(laidOut.draft) + measuredBytes(compute, laidOut.draft);
  const claimBytes = plain.claimBytes - plain.computeBytes - plain.draftBytes + computeBytes + draftBytes;
  return { ...plain, claimBytes, computeBytes, draftBytes };
}

/** The claim with compute buffers as they are laid out. */
export function uncalibrated({ memory, on }: Pick<EstimatedClaim, "memory" | "on">): ReplicaMemory {
  return on?.cpu ?? memory;
}

/**
 * Calculates the claim of the same template with other settings; undefined if no estimate is possible. The buffers are laid out
 * once per change, because only the last step depends on the host.
 */
export function claimWith({ template, model, draftModel, replicas }: ClaimInput): ClaimWith {
  const known = new Map<string, Claim>();
  const changed = (change: Parameters<ClaimWith>[0]): Claim => {
    const engine = { ...template.engine, ...change };
    // A custom type overrides the enum.
    if (change.cacheTypeK !== undefined) delete engine.cacheTypeCustomK;
    if (change.cacheTypeV !== undefined) delete engine.cacheTypeCustomV;
    return claimOf({ template: { ...template, engine }, model, draftModel, replicas });
  };
  return (change, { accelerator = DEFAULT_HOST_ACCELERATOR, compute } = {}) => {
    const key = JSON.stringify(change);
    const claim = known.get(key) ?? changed(change);
    known.set(key, claim);
    return claim.at === "estimated" ? memoryWith(claim, { accelerator, compute }).claimBytes : undefined;
  };
}

/** Without a size nothing is placed, unless only the host can read the source and its agent measures it. */
export function claimOf(input: ClaimInput): Claim {
  const { template, model, draftModel, replicas } = input;
  const isOnHost = isReadByHost(parseSource(template.model.source), template.model.format);
  const { name } = model.metadata;
  // A claim in the service does not depend on the size of the weights.
  const stated = template.engine.program?.memoryBytes === undefined ? undefined : { weightsBytes: 0 };
  const summary = summaryOf(model) ?? (isOnHost ? largestFound(replicas) : undefined) ?? stated;
  if (summary === undefined) {
    if (isOnHost) return { at: "hostDecides" };
    return unsizable(`the size of Model ${name} is not known, so nothing can say where it fits`);
  }
  const draft = draftModel === undefined ? undefined : summaryOf(draftModel);
  const unsized = [
    ...(template.draft !== undefined && draftModel !== undefined && draft === undefined
      ? [template.draft]
      : []),
    ...[template.projector, ...(template.loraAdapters ?? []).map((adapter) => adapter.model)].filter(
      (one) => one !== undefined && one.sizeBytes === undefined,
    ),
  ].filter((one) => one !== undefined);
  const [first] = unsized.filter(({ source }) => parseSource(source).kind !== "file");
  if (first !== undefined)
    return unsizable(
      `the size of ${publicSource(first.source)} is not known, so nothing can say where it fits`,
    );
  if (unsized.length > 0) return { at: "hostDecides" };
  const claim = estimate(input, summary, draft);
  if (!isOnHost) return corrected(claim, input, draft);
  if (claim.at !== "unsizable") return claim;
  // The header of the file is incomplete, so only its weights are certain.
  const { weightsBytes = 0 } = summary;
  return { at: "estimated", memory: { ...UNKNOWN_MEMORY, claimBytes: weightsBytes, weightsBytes } };
}

/** The source may have delivered a different file than the one whose header was read, and hosts run the delivered file. */
function corrected(claim: Claim, input: ClaimInput, draft: GgufSummary | undefined): Claim {
  const { template, model, replicas } = input;
  const identity = ({ source, files, ignorePatterns, mmproj, sha256 }: ReplicaModel) =>
    JSON.stringify([source, files, ignorePatterns, mmproj, sha256]);
  const own = identity(template.model);
  const found = largestFound(replicas.filter(({ spec }) => identity(spec.template.model) === own));
  const sizeBytes = found?.weightsBytes ?? 0;
  if (sizeBytes <= (model.status?.sizeBytes ?? 0)) return claim;
  const weightsBytes = Math.max(0, sizeBytes - (projectorBytes(model) ?? 0));
  const other = estimate(input, { ...model.status?.gguf, ...found, weightsBytes }, draft);
  if (claim.at !== "estimated" || other.at !== "estimated") return other.at === "estimated" ? other : claim;
  return other.memory.claimBytes > claim.memory.claimBytes ? other : claim;
}

function estimate(
  { template, model }: ClaimInput,
  summary: GgufSummary,
  draft: GgufSummary | undefined,
): Claim {
  try {
    const claims = engineDescription(template.runtime)?.host?.claims;
    if (claims === undefined) return unsizable(`runtime ${template.runtime} has no driver in this version`);
    const loraSizeBytes = (template.loraAdapters ?? []).reduce(
      (sum, adapter) => sum + (adapter.model.sizeBytes ?? 0),
      0,
    );
    const settings = {
      ...template.engine,
      projectorSizeBytes: template.projector?.sizeBytes ?? projectorBytes(model),
      draft,
      loraSizeBytes,
    };
    const memoryFor = (accelerator: Accelerator) => claims.estimate(summary, settings, accelerator);
    const on = Object.fromEntries(
      HOST_ACCELERATORS.map((accelerator) => [accelerator, memoryFor(accelerator)]),
    );
    const laidOut = claims.layOut?.(summary, settings);
    return { at: "estimated", memory: memoryFor(DEFAULT_HOST_ACCELERATOR), on, laidOut };
  } catch (error) {
    if (!(error instanceof MetalbridgeError)) throw error;
    return unsizable(`Model ${model.metadata.name}: ${error.message}`);
  }
}

function unsizable(message: string): Claim {
  return { at: "unsizable", message };
}

/** If the size of the tensors is unknown, the size of the file is used, which is never less. */
function summaryOf({ status }: Model): GgufSummary | undefined {
  const weightsBytes = status?.weightsBytes ?? status?.sizeBytes;
  return weightsBytes === undefined ? undefined : { ...status?.gguf, weightsBytes };
}

/** The largest file that an agent has found. */
function largestFound(replicas: readonly InferenceReplica[]): GgufSummary | undefined {
  let largest: GgufSummary | undefined;
  for (const { status } of replicas) {
    const { sizeBytes, gguf } = status?.model ?? {};
    if (sizeBytes === undefined || sizeBytes <= (largest?.weightsBytes ?? 0)) continue;
    largest = { ...gguf, weightsBytes: sizeBytes };
  }
  return largest;
}

/** Size of the files beyond the tensors, if one of them is or may be a projector; registries name it in a manifest. */
function projectorBytes({ spec, status }: Model): number | undefined {
  const { sizeBytes, weightsBytes } = status ?? {};
  const mayHaveOne = spec.mmproj !== undefined || /^(oci|ollama):/i.test(spec.source);
  if (!mayHaveOne || sizeBytes === undefined || weightsBytes === undefined) return undefined;
  return Math.max(0, sizeBytes - weightsBytes);
}
