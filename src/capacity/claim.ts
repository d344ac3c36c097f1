/** The memory claim of a template, or who else must know it. Pure. */

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
import { type Backend, measuredBytes } from "./placement/types.ts";
import type { TemplateWithoutHost } from "./template.ts";

/** What replicas carry while only their host can tell. */
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
      /** On a host of which nothing is known. */
      readonly memory: ReplicaMemory;
      /** Where it differs by what the host computes on. */
      readonly on?: Readonly<Partial<Record<Accelerator, ReplicaMemory>>>;
      /** Where hosts measure this engine's compute buffers: what their coefficients apply to. */
      readonly laidOut?: BufferLayout | undefined;
    }
  /** A source that only its host can read: the agent admits it. */
  | { readonly at: "hostDecides" }
  | { readonly at: "unsizable"; readonly message: string };

type EstimatedClaim = Extract<Claim, { at: "estimated" }>;

export interface ClaimInput {
  readonly template: TemplateWithoutHost;
  readonly model: Model;
  readonly draftModel: Model | undefined;
  /** Replicas of this model: their agents say what they found on their hosts. */
  readonly replicas: readonly InferenceReplica[];
}

/** The claim on one host, by what it computes on and what it has measured. */
export function memoryOn(claim: EstimatedClaim, host: Host | undefined): ReplicaMemory {
  if (host === undefined) return claim.memory;
  const accelerator = hostAccelerator(host.status?.info?.os);
  return memoryWith(claim, { accelerator, compute: host.status?.memory?.compute });
}

function memoryWith(claim: EstimatedClaim, { accelerator, compute }: Backend): ReplicaMemory {
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

/** With compute buffers as they are laid out. */
export function uncalibrated({ memory, on }: Pick<EstimatedClaim, "memory" | "on">): ReplicaMemory {
  return on?.cpu ?? memory;
}

/**
 * What the same template would claim with other settings; undefined where no estimate is possible. Laid out once for each
 * change: only the last step depends on the host.
 */
export function claimWith({ template, model, draftModel, replicas }: ClaimInput): ClaimWith {
  const known = new Map<string, Claim>();
  const changed = (change: Parameters<ClaimWith>[0]): Claim => {
    const engine = { ...template.engine, ...change };
    // A custom type wins over the enum.
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

/** Fails closed: without a size nothing is placed, except where only the host can read it and its agent measures it. */
export function claimOf(input: ClaimInput): Claim {
  const { template, model, draftModel, replicas } = input;
  const isOnHost = isReadByHost(parseSource(template.model.source), template.model.format);
  const { name } = model.metadata;
  // A claim that the service states needs no size of the weights.
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
    ...(template.loraAdapters ?? []).map((adapter) => adapter.model).filter(isUnsized),
  ];
  const [first] = unsized.filter(({ source }) => parseSource(source).kind !== "file");
  if (first !== undefined)
    return unsizable(
      `the size of ${publicSource(first.source)} is not known, so nothing can say where it fits`,
    );
  if (unsized.length > 0) return { at: "hostDecides" };
  const claim = estimate(input, summary, draft);
  if (!isOnHost) return corrected(claim, input, draft);
  return claim.at === "unsizable" ? weightsOnly(summary.weightsBytes ?? 0) : claim;
}

function isUnsized({ sizeBytes }: ReplicaModel): boolean {
  return sizeBytes === undefined;
}

/** The source may have delivered another file than the one whose header was read: what is on a host is what runs. */
function corrected(claim: Claim, input: ClaimInput, draft: GgufSummary | undefined): Claim {
  const { template, model, replicas } = input;
  const found = largestFound(replicas.filter(({ spec }) => isSameFile(spec.template.model, template.model)));
  const sizeBytes = found?.weightsBytes ?? 0;
  if (sizeBytes <= (model.status?.sizeBytes ?? 0)) return claim;
  const weightsBytes = Math.max(0, sizeBytes - (projectorBytes(model) ?? 0));
  const other = estimate(input, { ...model.status?.gguf, ...found, weightsBytes }, draft);
  if (claim.at !== "estimated" || other.at !== "estimated") return other.at === "estimated" ? other : claim;
  return other.memory.claimBytes > claim.memory.claimBytes ? other : claim;
}

function isSameFile(one: ReplicaModel, other: ReplicaModel): boolean {
  const named = ({ source, files, mmproj, sha256 }: ReplicaModel) =>
    JSON.stringify([source, files, mmproj, sha256]);
  return named(one) === named(other);
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
      projectorSizeBytes: projectorBytes(model),
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

/** The file's bytes stand in for those of its tensors: never less. */
function summaryOf({ status }: Model): GgufSummary | undefined {
  const weightsBytes = status?.weightsBytes ?? status?.sizeBytes;
  return weightsBytes === undefined ? undefined : { ...status?.gguf, weightsBytes };
}

/** Once an agent has read the file, its claim is as good as any other. */
function largestFound(replicas: readonly InferenceReplica[]): GgufSummary | undefined {
  let largest: GgufSummary | undefined;
  for (const { status } of replicas) {
    const { sizeBytes, gguf } = status?.model ?? {};
    if (sizeBytes === undefined || sizeBytes <= (largest?.weightsBytes ?? 0)) continue;
    largest = { ...gguf, weightsBytes: sizeBytes };
  }
  return largest;
}

/** For a file whose header is incomplete: the weights alone, the part that is certain. */
function weightsOnly(weightsBytes: number): Claim {
  return { at: "estimated", memory: { ...UNKNOWN_MEMORY, claimBytes: weightsBytes, weightsBytes } };
}

/** What the files hold beyond the tensors, where one of them is or may be a projector: registries name it in a manifest. */
function projectorBytes({ spec, status }: Model): number | undefined {
  const { sizeBytes, weightsBytes } = status ?? {};
  const mayHaveOne = spec.mmproj !== undefined || /^(oci|ollama):/i.test(spec.source);
  if (!mayHaveOne || sizeBytes === undefined || weightsBytes === undefined) return undefined;
  return Math.max(0, sizeBytes - weightsBytes);
}
