/** Builds the volumes of a pod, for its weights and for the files that the engine reads and writes. Pure. */

import { MetalbridgeError } from "../../../src/api/errors.ts";
import type { InferenceServiceSpec } from "../../../src/api/inference-service/index.ts";
import { modelNamesOf } from "../../../src/api/inference-service/roles.ts";
import type { Model } from "../../../src/api/model.ts";
import { SSH_KEY_FILE } from "../../../src/engines/contract/group.ts";
import type { PodAdapter, PodFiles, PodInput, PodRuntime } from "../../../src/engines/contract/pod.ts";
import type { MountedWeights, Volume, WorkloadInput } from "./contract.ts";
import { type Fetching, fetchingOf } from "./ephemeral.ts";
import type { GPURequest } from "./gpus.ts";
import { CACHE_VOLUME } from "./model-cache.ts";

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
  /** Paths in the engine's container. */
  readonly paths: Pick<
    PodInput,
    "weights" | "projector" | "draft" | "adapters" | "chatTemplateFile" | "slotFolder" | "apiKeyFile"
  >;
  /** Absent if no init container fetches weights. */
  readonly fetching?: Fetching;
  /** The claim of the weights, if only one node at a time can mount it. */
  readonly oneNodeClaim?: string;
}

const ANNOTATION_CHAT_TEMPLATE = "metalbridge.dev/chat-template";
/** Volume with the API key, for engines that read the key from a file. */
export const KEY_VOLUME = "api-key";
const VOLUME_OF_NODE = /^node-\d+$/;
const OWN_FOLDER = "/etc/metalbridge";
const SHARED_MEMORY_PER_GPU = 4;

interface Part {
  readonly volume: Volume;
  readonly mount: { readonly mountPath: string; readonly readOnly?: boolean };
}

export function podVolumesOf(input: WorkloadInput, pod: PodRuntime, gpus: GPURequest): Files {
  const { spec } = input.service;
  const { weights, draftWeights, projectorWeights, adapterWeights } = onOneClaim(input);
  const places = [
    ...(weights ? [{ weights, path: "/models" }] : []),
    ...(draftWeights ? [{ weights: draftWeights, path: "/draft" }] : []),
    ...(projectorWeights ? [{ weights: projectorWeights, path: "/projector" }] : []),
    ...adapterWeights.flatMap((adapter, index) =>
      adapter === undefined ? [] : [{ weights: adapter, path: `/adapters/${index}` }],
    ),
  ];
  const claims = [...new Set(places.flatMap(({ weights: { claimName } }) => claimName ?? []))];
  const volumeOf = (claimName: string | undefined) =>
    claimName === undefined ? CACHE_VOLUME : `weights-${claims.indexOf(claimName)}`;
  const hostPaths = [...new Set(places.flatMap(({ weights: { hostPath } }) => hostPath ?? []))];
  const volumeOfNode = (hostPath: string) => `node-${hostPaths.indexOf(hostPath)}`;
  const fetching = fetchingOf(
    places.map((place) => place.weights),
    spec,
    input.settings,
    volumeOf,
  );
  const parts = [...enginesParts(spec, pod), ...sharedMemory(spec, pod, gpus)];
  const ours: Volume[] = [
    ...claims.map((claimName) => ({ name: volumeOf(claimName), persistentVolumeClaim: { claimName } })),
    ...hostPaths.map((folder) => ({
      name: volumeOfNode(folder),
      hostPath: { path: folder, type: "Directory" },
    })),
    ...(fetching?.volumes ?? []),
    ...parts.map(({ volume }) => volume),
  ];
  const mounts: Mount[] = [
    ...places.map(({ weights: { claimName, hostPath, folder }, path }) => ({
      name: hostPath === undefined ? volumeOf(claimName) : volumeOfNode(hostPath),
      mountPath: path,
      readOnly: true,
      subPath: folder === "" ? undefined : folder,
    })),
    ...parts.map(({ volume, mount }) => ({ name: volume.name, ...mount })),
  ];
  checkMounts(spec);
  return {
    volumes: withTheirs(ours, (spec.extraVolumes ?? []) as unknown as Volume[], ({ name }) => name),
    mounts: withTheirs(
      mounts,
      (spec.extraVolumeMounts ?? []) as unknown as Mount[],
      ({ mountPath }) => mountPath,
    ),
    annotations: spec.chatTemplate === undefined ? {} : { [ANNOTATION_CHAT_TEMPLATE]: spec.chatTemplate },
    paths: {
      weights: weights && filesAt("/models", weights),
      projector: projectorWeights
        ? filesAt("/projector", projectorWeights).main
        : projectorOf(input.model, weights),
      draft: { model: input.draft, files: draftWeights && filesAt("/draft", draftWeights) },
      adapters: adaptersOf(input, adapterWeights),
      chatTemplateFile: spec.chatTemplate === undefined ? undefined : `${OWN_FOLDER}/chat/template.jinja`,
      slotFolder: spec.slotSaveRestore === true ? "/slots" : undefined,
      apiKeyFile:
        spec.auth !== undefined && pod.apiKey?.by === "file" ? `${OWN_FOLDER}/auth/api-key` : undefined,
    },
    fetching,
    oneNodeClaim: fetching?.claim ?? oneNodeClaimOf(weights),
  };
}

/**
 * Pods fill only the claim of the main Model; drafts, projectors and adapters are fetched to the pod's own volume. kube-scheduler counts a
 * pod for required affinity only if it matches every term, so pods that share one of two claims could be sent to two nodes.
 */
function onOneClaim({ weights, draftWeights, projectorWeights, adapterWeights = [] }: WorkloadInput) {
  const onMainClaimOrPod = ({ claimName, ...rest }: MountedWeights): MountedWeights => {
    const isElsewhere = rest.fetched !== undefined && claimName !== weights?.claimName;
    return isElsewhere || claimName === undefined ? rest : { claimName, ...rest };
  };
  return {
    weights,
    draftWeights: draftWeights && onMainClaimOrPod(draftWeights),
    projectorWeights: projectorWeights && onMainClaimOrPod(projectorWeights),
    adapterWeights: adapterWeights.map((one) => one && onMainClaimOrPod(one)),
  };
}

/** The claim of weights that a Job has brought to a volume of one node. */
function oneNodeClaimOf({ isOnOneNode, claimName }: Partial<MountedWeights> = {}): string | undefined {
  return isOnOneNode === true ? claimName : undefined;
}

function adaptersOf(
  { service, adapters = [] }: WorkloadInput,
  weights: readonly (MountedWeights | undefined)[],
): PodAdapter[] {
  return modelNamesOf(service.spec).adapters.map(({ name, scale }, index) => {
    const mounted = weights[index];
    const files = mounted && filesAt(`/adapters/${index}`, mounted);
    return { model: adapters[index], files, scale, servedName: scale === undefined ? name : undefined };
  });
}

/** Path of the projector; undefined if the engine fetches the weights, or the Model has no projector. */
function projectorOf({ spec: { mmproj } }: Model, weights: MountedWeights | undefined): string | undefined {
  // A registry's manifest may name a projector even if the Model does not.
  if (weights?.projector !== undefined) return `/models/${weights.projector}`;
  if (weights === undefined || mmproj === undefined) return undefined;
  return `${filesAt("/models", weights).folder}/${mmproj}`;
}

function filesAt(mountPath: string, { file, isFolder }: MountedWeights): PodFiles {
  const main = `${mountPath}/${file}`;
  return { main, folder: isFolder === true ? main : main.slice(0, main.lastIndexOf("/")) };
}

function enginesParts(spec: InferenceServiceSpec, pod: PodRuntime): Part[] {
  const { auth, chatTemplate, slotSaveRestore, group } = spec;
  const parts: Part[] = [{ volume: { name: "tmp", emptyDir: {} }, mount: { mountPath: "/tmp" } }];
  if (slotSaveRestore === true)
    parts.push({ volume: { name: "slots", emptyDir: {} }, mount: { mountPath: "/slots" } });
  // The kubelet writes an annotation to a file, so no additional object has to be kept up to date.
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
  if (group?.sshSecretRef !== undefined) {
    const file = SSH_KEY_FILE.slice(SSH_KEY_FILE.lastIndexOf("/") + 1);
    const secret = {
      secretName: group.sshSecretRef.name,
      items: [{ key: "ssh-privatekey", path: file }],
      defaultMode: 0o440,
    };
    const mountPath = SSH_KEY_FILE.slice(0, SSH_KEY_FILE.lastIndexOf("/"));
    parts.push({ volume: { name: "ssh", secret }, mount: { mountPath, readOnly: true } });
  }
  if (auth !== undefined && pod.apiKey?.by === "file") {
    const items = [{ key: auth.key, path: "api-key" }];
    parts.push({
      volume: { name: KEY_VOLUME, secret: { secretName: auth.secretRef.name, items, defaultMode: 0o440 } },
      mount: { mountPath: `${OWN_FOLDER}/auth`, readOnly: true },
    });
  }
  return parts;
}

/** Containers have 64 MiB, which is too little for engines that run a process for each GPU, or a rank of a group. */
function sharedMemory(
  { sharedMemory: given, group }: InferenceServiceSpec,
  pod: PodRuntime,
  { count }: GPURequest,
): Part[] {
  const isNeeded = pod.sharesMemory === true && (count > 1 || group !== undefined);
  const sizeLimit = given ?? (isNeeded ? `${Math.max(count, 1) * SHARED_MEMORY_PER_GPU}Gi` : undefined);
  if (sizeLimit === undefined) return [];
  return [
    {
      volume: { name: "shared-memory", emptyDir: { medium: "Memory", sizeLimit } },
      mount: { mountPath: "/dev/shm" },
    },
  ];
}

/** The policy for dangerous pods has the same rule, by the name alone too. A volume of a node is its whole folder, and writable. */
function checkMounts({ extraVolumeMounts = [] }: InferenceServiceSpec): void {
  const found = (extraVolumeMounts as unknown as Mount[]).find(({ name }) => VOLUME_OF_NODE.test(name));
  if (found === undefined) return;
  const message = `spec.extraVolumeMounts mounts ${found.name}, a name that is reserved for the folders in pods.hostPaths, which pods only read`;
  throw new MetalbridgeError("VolumeReserved", message);
}

/** The user's entries replace ours with the same name or mount path, for example to mount a larger volume at /tmp. */
function withTheirs<T>(ours: readonly T[], theirs: readonly T[], keyOf: (one: T) => string): T[] {
  return [...ours.filter((one) => !theirs.some((other) => keyOf(other) === keyOf(one))), ...theirs];
}
