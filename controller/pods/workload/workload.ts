/** Builds the objects that run a service on Linux nodes. Pure; throws only MetalbridgeError. */
import { isIP } from "node:net";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { isAutoscaled } from "../../../src/api/inference-service/autoscaling.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { sortedNames } from "../../../src/api/inference-service/model-names.ts";
import { keyOf, serviceName } from "../../../src/api/names.ts";
import { familyLabels, MANAGED_BY, ownedObjectRef, ownerLabels } from "../../../src/api/owned.ts";
import { revisionHistoryLimit, toEngineSettings } from "../../../src/capacity/template.ts";
import type { PodCommand, PodInput, PodRuntime } from "../../../src/engines/contract/pod.ts";
import { engineDescription } from "../../../src/engines/registry.ts";
import type { Container, Deployment } from "../../../src/kube/workload-objects.ts";
import { containerOf, startSeconds } from "./container.ts";
import type { PodsSettings, Surroundings, Workload, WorkloadInput } from "./contract.ts";
import { type GPURequest, gpusOf } from "./gpus.ts";
import { imageOf } from "./images.ts";
import { memoryRequest } from "./memory.ts";
import { podTemplateOf } from "./pod.ts";
import { queueLabels } from "./queue-labels.ts";
import { withRevision } from "./revision.ts";
import { hasDevices, strategyOf } from "./strategy.ts";
import { disruptionBudgetOf, networkPolicyOf, podMonitorOf } from "./surroundings.ts";
import { type Files, podVolumesOf } from "./volumes.ts";

/** Throws MetalbridgeError if no pod can be built from the input. */
export function buildWorkload(input: WorkloadInput): Workload {
  const pod = podRuntime(input);
  return {
    deployment: deploymentOf(input, pod),
    ...surroundingsOf(input, pod),
  };
}

/** Throws MetalbridgeError. */
export function surroundingsOf(
  { service, replicas, claimTemplate }: WorkloadInput,
  pod: PodRuntime,
): Surroundings {
  return {
    claimTemplate,
    disruptionBudget: disruptionBudgetOf(service, replicas),
    networkPolicy: networkPolicyOf(service),
    podMonitor: podMonitorOf(service, pod),
  };
}

/** The runtime of the pods. Throws MetalbridgeError if it cannot run the service in pods. */
export function podRuntime(input: WorkloadInput): PodRuntime {
  const pod = runtimeInPods(input);
  checkGate(input.service, pod, input);
  return pod;
}

function runtimeInPods({ runtime, weights }: WorkloadInput): PodRuntime {
  const pod = engineDescription(runtime)?.pod;
  if (pod === undefined)
    throw new MetalbridgeError("RuntimeMismatch", `runtime ${runtime} does not run in pods`);
  if (pod.needsWeights === true && weights === undefined)
    throw new MetalbridgeError("WeightsNotCached", `runtime ${runtime} reads its weights from a volume`);
  return pod;
}

/** Rejects settings that only the gate implements, because serving without TLS or keys would be unsafe. */
function checkGate({ spec }: InferenceService, pod: PodRuntime, { runtime }: WorkloadInput): void {
  const { auth, endpoint } = spec;
  if (endpoint.tls !== undefined)
    throw new MetalbridgeError(
      "GateNotInPods",
      "spec.endpoint.tls is served by the gate, which pods do not have",
    );
  if (auth !== undefined && pod.apiKey === undefined)
    throw new MetalbridgeError("GateNotInPods", `runtime ${runtime} cannot check the API keys of spec.auth`);
}

function deploymentOf(input: WorkloadInput, pod: PodRuntime): Deployment {
  const { service, model, replicas, settings, isOnlyService = false, flavors } = input;
  const { spec } = service;
  const { gpus, files, container } = enginePodOf(input, pod, (engine) => pod.command(engine));
  const strategy = strategyOf({
    rollout: spec.rollout,
    hasDevices: hasDevices({ containers: [container] }) || mountsAlone(files, settings),
    // Otherwise scaling from or to one replica would change the strategy.
    replicas: isAutoscaled(spec) ? undefined : replicas,
  });
  const template = podTemplateOf({
    service,
    model,
    pod,
    gpus,
    files,
    container,
    settings,
    flavors,
    isAlone: strategy.type === "Recreate" && isOnlyService,
  });
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: {
      ...ownedObjectRef(service, serviceName(service.metadata.name)),
      labels: { ...queueLabels(service), ...familyLabels(model), ...ownerLabels(service), ...MANAGED_BY },
    },
    spec: {
      replicas,
      selector: { matchLabels: ownerLabels(service) },
      strategy,
      progressDeadlineSeconds: 2 * startSeconds(model.status?.sizeBytes),
      revisionHistoryLimit: revisionHistoryLimit(spec),
      template: withRevision(template),
    },
  };
}

/** The engine's container and the volumes of its pod. */
export interface EnginePod {
  readonly gpus: GPURequest;
  readonly files: Files;
  readonly input: PodInput;
  readonly container: Container;
}

/** Throws MetalbridgeError. */
export function enginePodOf(
  input: WorkloadInput,
  pod: PodRuntime,
  commandOf: (engine: PodInput) => PodCommand,
): EnginePod {
  const { service, model, runtime, settings, flavors } = input;
  const { spec } = service;
  const gpus = { ...gpusOf(model, spec), parallel: flavors?.parallel };
  const files = podVolumesOf(input, pod, gpus);
  const { accelerator } = gpus;
  const { image: named, backendRuntime: { version } = {} } = spec;
  const image = imageOf({ runtime, pod, accelerator, named, version, settings });
  const pinned = pod.images[accelerator];
  // The image may have the prefix of a mirror.
  const hasPinnedImage = pinned !== undefined && image.endsWith(pinned);
  const engine = podInput(input, { pod, gpus, files, hasPinnedImage });
  const container = containerOf({
    spec,
    pod,
    input: engine,
    command: commandOf(engine),
    gpus,
    image,
    mounts: files.mounts,
    ephemeralStorage: files.fetching?.sizeLimit,
    memory: memoryRequest(input, engine.settings, gpus),
    limits: flavors?.limits,
    sizeBytes: model.status?.sizeBytes,
  });
  return { gpus, files, input: engine, container };
}

/** A volume that only one pod can mount is like a device, because the next pod has to wait for it. */
function mountsAlone({ fetching }: Files, { fetch }: PodsSettings): boolean {
  return fetching?.claim !== undefined && fetch?.cacheAccessMode === "ReadWriteOncePod";
}

interface Parts {
  readonly pod: PodRuntime;
  readonly gpus: GPURequest;
  readonly files: Files;
  readonly hasPinnedImage: boolean;
}

function podInput(
  { service, model, settings }: WorkloadInput,
  { pod, gpus, files, hasPinnedImage }: Parts,
): PodInput {
  const { spec } = service;
  const gguf = model.status?.gguf;
  const gpuLayers = model.spec.hardware?.gpu?.layers;
  const address = spec.bindAddress ?? pod.address;
  if (isIP(address) === 0)
    throw new MetalbridgeError("SettingNotSupported", `spec.bindAddress ${address} is no IP address`);
  return {
    spec,
    settings: toEngineSettings(spec, { gguf, gpuLayers }),
    model,
    served: service.metadata.name,
    aliases: [keyOf(service.metadata), ...sortedNames(spec)],
    ...files.paths,
    address,
    port: spec.containerPort ?? pod.port,
    accelerator: gpus.accelerator,
    gpus,
    ollamaRegistry: settings.fetch?.ollamaRegistry,
    hasPinnedImage,
  };
}
