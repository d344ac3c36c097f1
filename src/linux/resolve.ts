/** What runs a service in pods: its runtime and the objects for it, or why it cannot. Pure. */
import type { Mode, Runtime } from "../api/engine-settings.ts";
import { MetalbridgeError } from "../api/errors.ts";
import type { Accelerator } from "../api/fields/hardware.ts";
import type { ModelFormat } from "../api/fields/shared.ts";
import type { InferenceService } from "../api/inference-service/index.ts";
import type { Model } from "../api/model.ts";
import { unhonoredFields } from "../capacity/honored.ts";
import { type Blocked, blockedBy, formatOf, usableModel } from "../capacity/resolve.ts";
import { isRuntimeFor, runtimeEntry, runtimesFor } from "../engines/registry.ts";
import type { LinuxSettings, Weights, Workload } from "./contract.ts";
import { podAccelerator } from "./gpus.ts";
import { weightsOnVolume } from "./model-cache.ts";
import { buildWorkload } from "./workload.ts";

export interface PodsInput {
  readonly service: InferenceService;
  readonly model?: Model | undefined;
  readonly draftModel?: Model | undefined;
  /** In the order of `spec.loraAdapters`. */
  readonly loraModels: readonly (Model | undefined)[];
  readonly settings: LinuxSettings;
}

export interface PodsResolved {
  readonly at: "resolved";
  readonly runtime: Runtime;
  readonly workload: Workload;
  /** Paths of fields that are set and have no effect in pods. */
  readonly unhonored: readonly string[];
}

export function resolvePods(input: PodsInput): PodsResolved | Blocked {
  const { service, settings } = input;
  const { modelRef, speculativeDecoding, loraAdapters = [], autoscaling, replicas, suspend } = service.spec;
  const draftRef = speculativeDecoding?.draftModelRef;
  const named: readonly Named[] = [
    { model: input.model, name: modelRef, field: "spec.modelRef" },
    ...(draftRef === undefined
      ? []
      : [{ model: input.draftModel, name: draftRef, field: "spec.speculativeDecoding.draftModelRef" }]),
    ...loraAdapters.map(({ modelRef: name }, index) => ({
      model: input.loraModels[index],
      name,
      field: `spec.loraAdapters[${index}].modelRef`,
    })),
  ];
  const usable: Model[] = [];
  const volumes: (Weights | undefined)[] = [];
  for (const { model, name, field } of named) {
    const found = usableModel(model, name, field);
    if ("at" in found) return found;
    const weights = weightsFor(service, found);
    if (weights !== undefined && "at" in weights) return weights;
    usable.push(found);
    volumes.push(weights);
  }
  const [model] = usable;
  if (model === undefined) throw new Error("a service without a Model");
  const [weights, ...further] = volumes;
  const [draftWeights] = draftRef === undefined ? [] : further;
  const adapterWeights = further.slice(draftRef === undefined ? 0 : 1).flatMap((one) => one ?? []);
  try {
    const runtime = runtimeOf(service, model);
    const isScaled = autoscaling !== undefined && !suspend;
    const workload = buildWorkload({
      ...{ service, model, runtime, weights, draftWeights, adapterWeights, settings },
      replicas: suspend ? 0 : isScaled ? undefined : replicas,
    });
    return { at: "resolved", runtime, workload, unhonored: unhonoredFields(service.spec, "linux", runtime) };
  } catch (error) {
    return blockedBy(error);
  }
}

interface Named {
  readonly model: Model | undefined;
  readonly name: string;
  readonly field: string;
}

/** Undefined: the engine fetches them itself. */
function weightsFor({ spec }: InferenceService, model: Model): Weights | Blocked | undefined {
  if (spec.skipModelInit === true || spec.modelCache?.persistence === "Ephemeral") return undefined;
  const weights = weightsOnVolume(model);
  if (weights !== undefined) return weights;
  const { phase, message } = model.status?.cache ?? {};
  const { name } = model.metadata;
  if (phase === "Failed") {
    const text = `Model ${name} has no copy on a volume: ${message ?? ""}`;
    return { at: "blocked", code: "ModelFailed", message: text, isFinal: false };
  }
  const why = message === undefined ? "" : `: ${message}`;
  const text = `Model ${name} is not on its volume yet${why}`;
  return { at: "blocked", code: "ModelNotReady", message: text, isFinal: false };
}

/** spec.runtime where it serves the model in pods, else the first that does. Throws RuntimeMismatch. */
function runtimeOf({ spec }: InferenceService, model: Model): Runtime {
  const format = formatOf(model);
  const accelerator = podAccelerator(model, spec);
  const { runtime, mode = "chat" } = spec;
  const candidates = runtime === undefined ? chosenFor(format, accelerator, mode) : [runtime];
  const found = candidates.find((one) => runtimeEntry(one)?.pod !== undefined);
  if (found !== undefined && isRuntimeFor(found, format, accelerator)) return found;
  const message =
    runtime === undefined
      ? `no runtime is chosen for format ${format} on ${accelerator} in pods; set spec.runtime`
      : `runtime ${runtime} does not serve format ${format} on ${accelerator} in pods`;
  throw new MetalbridgeError("RuntimeMismatch", message);
}

function chosenFor(format: ModelFormat, accelerator: Accelerator, mode: Mode): readonly Runtime[] {
  return runtimesFor(format, accelerator, mode);
}
