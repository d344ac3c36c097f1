/** Volumes of a pod: weights, what the engine writes, files that it reads. */
import type { InferenceServiceSpec } from "../api/inference-service/index.ts";
import type { PodFiles, PodRuntime } from "../engines/pods.ts";
import type { Weights, WorkloadInput } from "./contract.ts";
import type { GPURequest } from "./gpus.ts";

export type Volume = { readonly name: string; readonly [source: string]: unknown };
export type Mount = {
  readonly name: string;
  readonly mountPath: string;
  readonly readOnly?: boolean;
  readonly subPath?: string;
  readonly [further: string]: unknown;
};

export interface Files {
  readonly volumes: readonly Volume[];
  readonly mounts: readonly Mount[];
  readonly annotations: Readonly<Record<string, string>>;
  readonly weights?: PodFiles;
  readonly projector?: string;
  readonly draft?: PodFiles;
  readonly adapters: readonly PodFiles[];
  readonly chatTemplateFile?: string;
  readonly slotFolder?: string;
  readonly apiKeyFile?: string;
}

const ANNOTATION_CHAT_TEMPLATE = "metalbridge.dev/chat-template";
const OWN_FOLDER = "/etc/metalbridge";
const SHARED_MEMORY_PER_GPU = 4;

interface Part {
  readonly volume: Volume;
  readonly mount: { readonly mountPath: string; readonly readOnly?: boolean };
}

export function filesOf(input: WorkloadInput, pod: PodRuntime, gpus: GPURequest): Files {
  const { service, model, weights, draftWeights, adapterWeights = [] } = input;
  const { spec } = service;
  const places = [
    ...(weights === undefined ? [] : [{ weights, path: "/models" }]),
    ...(draftWeights === undefined ? [] : [{ weights: draftWeights, path: "/draft" }]),
    ...adapterWeights.map((adapter, index) => ({ weights: adapter, path: `/adapters/${index}` })),
  ];
  const claims = [...new Set(places.map(({ weights: { claimName } }) => claimName))];
  const volumeOf = (claimName: string) => `weights-${claims.indexOf(claimName)}`;
  const parts = [...enginesParts(spec, pod), ...sharedMemory(pod, gpus)];
  const main = weights && filesAt("/models", weights);
  // A registry's manifest may name the projector itself.
  const projector = model.spec.mmproj ?? model.status?.cache?.mmproj?.split("/").at(-1);
  const ours: Volume[] = [
    ...claims.map((claimName) => ({ name: volumeOf(claimName), persistentVolumeClaim: { claimName } })),
    ...parts.map(({ volume }) => volume),
  ];
  const mounts: Mount[] = [
    ...places.map(({ weights: { claimName, folder }, path }) => ({
      name: volumeOf(claimName),
      mountPath: path,
      readOnly: true,
      ...(folder === "" ? {} : { subPath: folder }),
    })),
    ...parts.map(({ volume, mount }) => ({ name: volume.name, ...mount })),
  ];
  return {
    volumes: withTheirs(ours, (spec.extraVolumes ?? []) as unknown as Volume[], ({ name }) => name),
    mounts: withTheirs(
      mounts,
      (spec.extraVolumeMounts ?? []) as unknown as Mount[],
      ({ mountPath }) => mountPath,
    ),
    annotations: spec.chatTemplate === undefined ? {} : { [ANNOTATION_CHAT_TEMPLATE]: spec.chatTemplate },
    ...(main === undefined ? {} : { weights: main }),
    ...(main === undefined || projector === undefined ? {} : { projector: `${main.folder}/${projector}` }),
    ...(draftWeights === undefined ? {} : { draft: filesAt("/draft", draftWeights) }),
    adapters: adapterWeights.map((adapter, index) => filesAt(`/adapters/${index}`, adapter)),
    ...(spec.chatTemplate === undefined ? {} : { chatTemplateFile: `${OWN_FOLDER}/chat/template.jinja` }),
    ...(spec.slotSaveRestore === true ? { slotFolder: "/slots" } : {}),
    ...(spec.auth !== undefined && pod.apiKey === "file" ? { apiKeyFile: `${OWN_FOLDER}/auth/api-key` } : {}),
  };
}

function filesAt(mountPath: string, { file }: Weights): PodFiles {
  const main = `${mountPath}/${file}`;
  return { main, folder: main.slice(0, main.lastIndexOf("/")) };
}

function enginesParts(spec: InferenceServiceSpec, pod: PodRuntime): Part[] {
  const { auth, chatTemplate, slotSaveRestore } = spec;
  const parts: Part[] = [{ volume: { name: "tmp", emptyDir: {} }, mount: { mountPath: "/tmp" } }];
  if (slotSaveRestore === true)
    parts.push({ volume: { name: "slots", emptyDir: {} }, mount: { mountPath: "/slots" } });
  // The kubelet writes an annotation into a file: no further object has to be kept up to date.
  if (chatTemplate !== undefined) {
    const fieldPath = `metadata.annotations['${ANNOTATION_CHAT_TEMPLATE}']`;
    parts.push({
      volume: {
        name: "chat-template",
        downwardAPI: { items: [{ path: "template.jinja", fieldRef: { fieldPath } }] },
      },
      mount: { mountPath: `${OWN_FOLDER}/chat`, readOnly: true },
    });
  }
  if (auth !== undefined && pod.apiKey === "file") {
    const items = [{ key: auth.key, path: "api-key" }];
    parts.push({
      volume: { name: "api-key", secret: { secretName: auth.secretRef.name, items, defaultMode: 0o440 } },
      mount: { mountPath: `${OWN_FOLDER}/auth`, readOnly: true },
    });
  }
  return parts;
}

function sharedMemory(pod: PodRuntime, { count }: GPURequest): Part[] {
  if (pod.sharesMemory !== true || count <= 1) return [];
  const sizeLimit = `${count * SHARED_MEMORY_PER_GPU}Gi`;
  return [
    {
      volume: { name: "shared-memory", emptyDir: { medium: "Memory", sizeLimit } },
      mount: { mountPath: "/dev/shm" },
    },
  ];
}

/** What the user adds replaces ours of the same name or place, for example a larger volume for /tmp. */
function withTheirs<T>(ours: readonly T[], theirs: readonly T[], keyOf: (one: T) => string): T[] {
  return [...ours.filter((one) => !theirs.some((other) => keyOf(other) === keyOf(one))), ...theirs];
}
