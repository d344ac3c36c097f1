/** The memory claim of a template, or who else must know it. Pure. */
import type { InferenceReplica, ReplicaMemory, ReplicaModel } from "../../../src/api/inference-replica.ts";
import type { Model } from "../../../src/api/model.ts";
import type { TemplateWithoutHost } from "../../../src/api/to-template.ts";
import { MetalbridgeError } from "../../../src/errors.ts";
import type { GgufSummary } from "../../../src/gguf/summary.ts";
import { estimateClaim } from "../../../src/memory/claim.ts";
import { parseSource } from "../../../src/source/source.ts";

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
  overheadBytes: 0,
};

export type Claim =
  | { readonly at: "estimated"; readonly memory: ReplicaMemory }
  /** A file on the host, which only its agent can read and admit. */
  | { readonly at: "hostDecides" }
  | { readonly at: "unsizable"; readonly message: string };

export interface ClaimInput {
  readonly template: TemplateWithoutHost;
  readonly model: Model;
  readonly draftModel: Model | undefined;
  /** Replicas of this model: their agents say what they found on their hosts. */
  readonly replicas: readonly InferenceReplica[];
}

/** Fails closed: without a size nothing is placed, except where the file is on the host and its agent measures it. */
export function claimOf(input: ClaimInput): Claim {
  const { template, model, draftModel, replicas } = input;
  const isOnHost = parseSource(template.model.source).kind === "file";
  const { name } = model.metadata;
  const summary = summaryOf(model) ?? (isOnHost ? largestFound(replicas) : undefined);
  if (summary === undefined) {
    if (isOnHost) return { at: "hostDecides" };
    return unsizable(`the size of Model ${name} is not known, so nothing can say where it fits`);
  }
  const draft = draftModel === undefined ? undefined : summaryOf(draftModel);
  if (draftModel !== undefined && draft === undefined) {
    return unsizable(`the size of the draft Model ${draftModel.metadata.name} is not known`);
  }
  const claim = estimate(input, summary, draft);
  if (!isOnHost) return corrected(claim, input, draft);
  return claim.at === "unsizable" ? weightsOnly(summary.weightsBytes ?? 0) : claim;
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
    const projectorSizeBytes = projectorBytes(model);
    const { totalBytes, ...parts } = estimateClaim(summary, {
      ...template.engine,
      projectorSizeBytes,
      draft,
    });
    return { at: "estimated", memory: { claimBytes: totalBytes, ...parts } };
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

/** A file whose header tells too little: at least what is certain. */
function weightsOnly(weightsBytes: number): Claim {
  return { at: "estimated", memory: { ...UNKNOWN_MEMORY, claimBytes: weightsBytes, weightsBytes } };
}

/** What the files hold beyond the tensors, where one of them is a projector. */
function projectorBytes({ spec, status }: Model): number | undefined {
  const { sizeBytes, weightsBytes } = status ?? {};
  if (spec.mmproj === undefined || sizeBytes === undefined || weightsBytes === undefined) return undefined;
  return Math.max(0, sizeBytes - weightsBytes);
}
