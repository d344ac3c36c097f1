/** From a service and its Model to what would run, or why nothing can. Pure. */
import { unhonoredFields } from "../../../src/api/honored.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { Model } from "../../../src/api/model.ts";
import type { TemplateWithoutHost } from "../../../src/api/to-template.ts";
import { toReplicaModel, toReplicaTemplate } from "../../../src/api/to-template.ts";
import { type ErrorCode, MetalbridgeError } from "../../../src/errors.ts";
import { contextBeyondTraining } from "../../../src/memory/claim-notes.ts";
import { formatOf, runtimeFor } from "./choose.ts";
import { type Claim, claimOf } from "./claim.ts";
import type { ServiceObserved } from "./observed.ts";

export interface Resolved {
  readonly at: "resolved";
  readonly template: TemplateWithoutHost;
  readonly model: Model;
  readonly claim: Claim;
  readonly unhonored: readonly string[];
  /** Why a request cannot use all of the context that it is given. */
  readonly beyondTraining?: string;
}

export interface Blocked {
  readonly at: "blocked";
  readonly code: ErrorCode;
  readonly message: string;
  /** True when only a change of spec or Model helps; false when waiting may. */
  readonly isFinal: boolean;
}

export type Resolution = Resolved | Blocked;

export function resolveService(
  observed: Pick<ServiceObserved, "service" | "model" | "draftModel" | "replicas">,
): Resolution {
  const { service, model, draftModel } = observed;
  const { modelRef, speculativeDecoding } = service.spec;
  const usable = usableModel(model, modelRef);
  if ("at" in usable) return usable;
  const accelerator = usable.spec.hardware?.accelerator ?? "cpu";
  if (accelerator !== "metal") return notYetSupported(usable.metadata.name, accelerator);
  const draftRef = speculativeDecoding?.draftModelRef;
  const draft = draftRef === undefined ? undefined : usableModel(draftModel, draftRef);
  if (draft !== undefined && "at" in draft) return draft;
  try {
    return resolve(service, usable, draft, observed.replicas);
  } catch (error) {
    if (!(error instanceof MetalbridgeError)) throw error;
    return { at: "blocked", code: error.code, message: error.message, isFinal: true };
  }
}

function resolve(
  service: InferenceService,
  model: Model,
  draftModel: Model | undefined,
  replicas: readonly InferenceReplica[],
): Resolution {
  const format = formatOf(model);
  const runtime = runtimeFor(service.spec.runtime, format);
  const draft = draftModel === undefined ? undefined : toReplicaModel(draftModel, formatOf(draftModel));
  const gpuLayers = model.spec.hardware?.gpu?.layers;
  const template = toReplicaTemplate({
    service,
    runtime,
    model: toReplicaModel(model, format),
    draft,
    gpuLayers,
  });
  const ofModel = replicas.filter(({ spec }) => spec.template.model.source === model.spec.source);
  const claim = claimOf({ template, model, draftModel, replicas: ofModel });
  if (claim.at === "unsizable") {
    return { at: "blocked", code: "ModelSizeUnknown", message: claim.message, isFinal: false };
  }
  return {
    at: "resolved",
    template,
    model,
    claim,
    unhonored: unhonoredFields(service.spec, "metal", runtime),
    ...warningOf(model, ofModel, template),
  };
}

/** A file that only its host can read is as its agent found it. */
function warningOf(
  { status }: Model,
  replicas: readonly InferenceReplica[],
  { engine }: TemplateWithoutHost,
): Pick<Resolved, "beyondTraining"> {
  const found = replicas.map((replica) => replica.status?.model?.gguf).find((gguf) => gguf !== undefined);
  const beyondTraining = contextBeyondTraining(status?.gguf ?? found ?? {}, engine);
  return beyondTraining === undefined ? {} : { beyondTraining };
}

function usableModel(model: Model | undefined, name: string): Model | Blocked {
  if (model === undefined || model.metadata.deletionTimestamp !== undefined) {
    const message = `Model ${name} does not exist in this namespace; create it or correct spec.modelRef`;
    return { at: "blocked", code: "ModelNotFound", message, isFinal: false };
  }
  const accelerator = model.spec.hardware?.accelerator ?? "cpu";
  if (accelerator !== "metal") return notYetSupported(name, accelerator);
  const { phase, reason, message, observedGeneration } = model.status ?? {};
  const isCurrent = observedGeneration === undefined || observedGeneration === model.metadata.generation;
  if (phase === "Ready" && isCurrent) return model;
  const why = [reason, message].filter((text) => text !== undefined && text !== "").join(": ");
  if (phase === "Failed" && isCurrent) {
    return { at: "blocked", code: "ModelFailed", message: `Model ${name} failed: ${why}`, isFinal: true };
  }
  const text = why === "" ? `Model ${name} is not resolved yet` : `Model ${name} is not ready: ${why}`;
  return { at: "blocked", code: "ModelNotReady", message: text, isFinal: false };
}

function notYetSupported(name: string, accelerator: string): Blocked {
  const message = `Model ${name} asks for accelerator ${accelerator}; this version serves metal only: set spec.hardware.accelerator of the Model to metal`;
  return { at: "blocked", code: "NotYetSupported", message, isFinal: true };
}
