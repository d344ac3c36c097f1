/** The memory claim of a template, or who else must know it. Pure. */
import type { ReplicaMemory } from "../../../src/api/inference-replica.ts";
import type { Model } from "../../../src/api/model.ts";
import type { TemplateWithoutHost } from "../../../src/api/to-template.ts";
import { MetalbridgeError } from "../../../src/errors.ts";
import type { GgufSummary } from "../../../src/gguf/summary.ts";
import { estimateClaim } from "../../../src/memory/claim.ts";
import { parseSource } from "../../../src/source/source.ts";

export type Claim =
  | { readonly at: "estimated"; readonly memory: ReplicaMemory }
  /** A file on the host, which only its agent can read and admit. */
  | { readonly at: "hostDecides" }
  | { readonly at: "unsizable"; readonly message: string };

/** Fails closed: without a size nothing is placed, except where the file is on the host and its agent measures it. */
export function claimOf(template: TemplateWithoutHost, model: Model, draftModel: Model | undefined): Claim {
  const isOnHost = parseSource(template.model.source).kind === "file";
  const { name } = model.metadata;
  const summary = summaryOf(model);
  if (summary === undefined) {
    if (isOnHost) return { at: "hostDecides" };
    return {
      at: "unsizable",
      message: `the size of Model ${name} is not known, so nothing can say where it fits`,
    };
  }
  const draft = draftModel === undefined ? undefined : summaryOf(draftModel);
  if (draftModel !== undefined && draft === undefined) {
    return {
      at: "unsizable",
      message: `the size of the draft Model ${draftModel.metadata.name} is not known`,
    };
  }
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
    return isOnHost ? { at: "hostDecides" } : { at: "unsizable", message: `Model ${name}: ${error.message}` };
  }
}

/** The file's bytes stand in for those of its tensors: never less. */
function summaryOf({ status }: Model): GgufSummary | undefined {
  const weightsBytes = status?.weightsBytes ?? status?.sizeBytes;
  return weightsBytes === undefined ? undefined : { ...status?.gguf, weightsBytes };
}

/** What the files hold beyond the tensors, where one of them is a projector. */
function projectorBytes({ spec, status }: Model): number | undefined {
  const { sizeBytes, weightsBytes } = status ?? {};
  if (spec.mmproj === undefined || sizeBytes === undefined || weightsBytes === undefined) return undefined;
  return Math.max(0, sizeBytes - weightsBytes);
}
