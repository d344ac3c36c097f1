/** The objects of the model cache: the Job that downloads to a claim, and the NetworkPolicy of the Job. Pure. */
import { canonicalQuantity } from "../../../src/api/fields/quantity.ts";
import { API_VERSION, LABEL_MODEL, LABEL_MODEL_CACHE } from "../../../src/api/group.ts";
import type { ObjectMeta } from "../../../src/api/metadata.ts";
import type { Model } from "../../../src/api/model.ts";
import { familyLabels } from "../../../src/api/owned.ts";
import type { Container, Job, NetworkPolicy } from "../../../src/kube/workload-objects.ts";
import { FETCH_EXIT } from "../../../src/models/fetch-result.ts";
import { CREDENTIAL_ENV_PREFIX } from "../../../src/models/source/credentials.ts";
import { kindOf, type ModelSource, type RemoteSource } from "../../../src/models/source/kinds/registry.ts";
import { FORBIDDEN_NETWORKS, PRIVATE_NETWORKS } from "../../../src/models/source/networks.ts";
import { canonicalJson, hash } from "../../../src/util/hash.ts";
import { type CacheSettings, type MountedWeights, POD_USER } from "./contract.ts";
import { mountLabelOf, withMounts } from "./mount-affinity.ts";
import { UNPRIVILEGED, WITHOUT_MESH } from "./one-shot-pod.ts";

export interface CacheVolumeSpec {
  readonly at: "volume";
  readonly claimName: string;
  /** True if the controller creates the claim. Other claims are used unchanged. */
  readonly isOurs: boolean;
  /** Folder on the volume; empty for a pvc:// source, whose files are used in place. */
  readonly folder: string;
  readonly source: RemoteSource | Extract<ModelSource, { kind: "pvc" }>;
}

/** A download of a Model to a volume. `key` changes with each input that changes the outcome. */
export interface Download {
  readonly model: Model;
  readonly volume: CacheVolumeSpec;
  readonly key: string;
  /** Number of the Job among those with this key, from 1. */
  readonly attempt: number;
  /** Commit that the Model is pinned to. */
  readonly revision?: string;
  /** Resource version of the source's Secret; undefined if there is none, or it cannot be read. */
  readonly secretVersion?: string;
  /** Quantity: the capacity of the claim, or its request until it is bound. */
  readonly capacity?: string;
  /** True if only one node at a time can mount the volume, so the Job's pod must run beside those that have mounted it. */
  readonly isOnOneNode?: boolean;
  /** Name of a link in the folder to the file that engines open. Unlike the file's name it is known before the download. */
  readonly link?: string;
  /** If the disk would become full, the files of other downloads in the folder are removed. */
  readonly makesRoom?: boolean;
  /** Name of the volume in the pod; default `cache`. */
  readonly volumeName?: string;
}

/** Annotations of a download Job: the key of its download, and its attempt. */
export const ANNOTATION_FETCH_KEY = "metalbridge.dev/fetch-key";
export const ANNOTATION_ATTEMPT = "metalbridge.dev/attempt";
/** Generation of the Model that the Job was created from. The key does not cover resources, tolerations and Secret. */
export const ANNOTATION_GENERATION = "metalbridge.dev/model-generation";
/** Hash of the image and its pull secrets. A Job whose image cannot be pulled is replaced once they change. */
export const ANNOTATION_IMAGE_KEY = "metalbridge.dev/image-key";
/** Resource version of the source's Secret when the Job was created. */
export const ANNOTATION_SECRET_VERSION = "metalbridge.dev/secret-version";
/** Capacity of the claim when the Job was created. */
export const ANNOTATION_CAPACITY = "metalbridge.dev/claim-capacity";

export const FETCH_CONTAINER = "fetch";
/** Name of the volume that the download container writes to. */
export const CACHE_VOLUME = "cache";
const CACHE_PATH = "/cache";
const CA_FOLDER = "/etc/metalbridge/ca";
const RESULT_PATH = "/dev/termination-log";
export const MANAGED = { "app.kubernetes.io/managed-by": "metalbridge" };
const DAY_SECONDS = 86_400;
/** With the delays of the Job controller (10 s, doubled each time), a Job survives an outage of ten minutes. */
const RETRIES = 6;
/** Exit codes of `metalbridge` for an invalid command line and for a bug. */
const EXIT_USAGE = 2;
const EXIT_BUG = 70;

/** Key of a source, and the name of its folder on every volume. */
export function cacheKeyOf({ spec }: Model): string {
  return hash(spec.source, 16);
}

/** Location of a Model's weights for its pods; undefined until they are complete and verified. */
export function weightsOnVolume({ status }: Model): MountedWeights | undefined {
  const { phase, claimName = "", folder = "", file, mmproj, singleNode } = status?.cache ?? {};
  if (phase !== "Ready" || file === undefined) return undefined;
  const { format, files = [] } = status ?? {};
  const isFile =
    format === "gguf" || files.length === 0 || files.some((name) => `/${file}`.endsWith(`/${name}`));
  return {
    claimName,
    folder,
    file,
    isFolder: !isFile,
    projector: mmproj,
    isOnOneNode: singleNode,
  };
}

/** Changes with the files, and with the claim's UID: a new claim of the same name is empty. */
export function downloadKey(
  model: Model,
  volume: CacheVolumeSpec,
  claimUid: string,
  revision?: string,
): string {
  return hash(canonicalJson({ ...requestOf(model, revision), claimUid, folder: volume.folder }), 16);
}

/** Name of the link in the folder. It differs between Models that use other files of the same source. */
export function linkOf(model: Model): string {
  return `model-${hash(canonicalJson(requestOf(model, model.status?.pinned?.revision)), 16)}`;
}

/** Includes the Secret, which may choose the endpoint. A Model must not use files that another Model's Secret gave access to. */
function requestOf({ spec }: Model, revision: string | undefined) {
  const { source, files, ignorePatterns, mmproj, sha256, quantization, format, sourceSecretRef } = spec;
  const chosen = { source, files, ignorePatterns, mmproj, quantization, format };
  return { ...chosen, sha256: sha256?.toLowerCase(), revision, secret: sourceSecretRef?.name };
}

/** Hash of the configured image, because admission may change the image in the Job. */
export function imageKey({ image, imagePullSecrets }: CacheSettings): string {
  return hash(canonicalJson({ image, imagePullSecrets }), 16);
}

/** Equal for all Models that download to the same folder, so only one of them has a Job at a time. */
export function fetchJobName({ claimName, folder, source }: CacheVolumeSpec): string {
  const place = folder === "" && source.kind === "pvc" ? source.path : folder;
  return `metalbridge-fetch-${hash(`${claimName}/${place}`, 16)}`;
}

export function buildFetchJob(download: Download, settings: CacheSettings): Job {
  const { model, volume, key, attempt, secretVersion, capacity } = download;
  const isInPlace = volume.folder === "";
  const mounts = download.isOnOneNode === true ? mountLabelOf(volume.claimName) : undefined;
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: {
      ...jobMetadata(model, volume),
      annotations: {
        [ANNOTATION_FETCH_KEY]: key,
        [ANNOTATION_ATTEMPT]: String(attempt),
        [ANNOTATION_GENERATION]: String(model.metadata.generation ?? 0),
        [ANNOTATION_IMAGE_KEY]: imageKey(settings),
        ...(secretVersion === undefined ? {} : { [ANNOTATION_SECRET_VERSION]: secretVersion }),
        ...(capacity === undefined ? {} : { [ANNOTATION_CAPACITY]: capacity }),
      },
    },
    spec: {
      backoffLimit: RETRIES,
      activeDeadlineSeconds: DAY_SECONDS,
      ttlSecondsAfterFinished: DAY_SECONDS,
      // Two pods at the same time would write the same partial file.
      podReplacementPolicy: "Failed",
      podFailurePolicy: {
        rules: [
          { action: "Ignore", onPodConditions: [{ type: "DisruptionTarget", status: "True" }] },
          {
            action: "FailJob",
            onExitCodes: {
              containerName: FETCH_CONTAINER,
              operator: "In",
              values: [FETCH_EXIT.final, EXIT_USAGE, EXIT_BUG],
            },
          },
        ],
      },
      template: {
        metadata: {
          labels: {
            ...WITHOUT_MESH.labels,
            ...jobLabels(model),
            ...(mounts === undefined ? {} : { [mounts]: "mounted" }),
          },
          annotations: WITHOUT_MESH.annotations,
        },
        spec: {
          restartPolicy: "Never",
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          nodeSelector: { "kubernetes.io/os": "linux" },
          affinity: withMounts(undefined, mounts),
          tolerations: unlessEmpty(model.spec.prefetchTolerations),
          imagePullSecrets: unlessEmpty(settings.imagePullSecrets.map((name) => ({ name }))),
          securityContext: {
            runAsNonRoot: true,
            runAsUser: POD_USER,
            runAsGroup: POD_USER,
            fsGroup: POD_USER,
            fsGroupChangePolicy: "OnRootMismatch",
            seccompProfile: { type: "RuntimeDefault" },
          },
          containers: [fetchContainer(download, settings)],
          volumes: [
            {
              name: CACHE_VOLUME,
              persistentVolumeClaim: {
                claimName: volume.claimName,
                ...(isInPlace ? { readOnly: true } : {}),
              },
            },
            ...caVolumes(settings),
          ],
        },
      },
    },
  };
}

/** The volume with additional certificate authorities that downloads trust. */
export function caVolumes({ cacheCaConfigMap: name }: CacheSettings) {
  return name === undefined ? [] : [{ name: "ca", configMap: { name } }];
}

/** The container that downloads weights, for the Job and as an init container of pods. */
export function fetchContainer(
  download: Omit<Download, "key" | "attempt">,
  settings: CacheSettings,
): Container {
  const { model, volume, revision, link, makesRoom, volumeName = CACHE_VOLUME } = download;
  const { resources = {}, sourceSecretRef } = model.spec;
  const isInPlace = volume.folder === "";
  const { cpu, memory } = resources;
  return {
    name: FETCH_CONTAINER,
    image: settings.image ?? "",
    args: [
      ...fetchArguments(model, volume, settings, revision),
      ...(link === undefined ? [] : [`--link=${link}`]),
      ...(makesRoom === true ? ["--make-room"] : []),
    ].map(literal),
    envFrom: sourceSecretRef && [
      { prefix: CREDENTIAL_ENV_PREFIX, secretRef: { name: sourceSecretRef.name } },
    ],
    env: isInPlace ? undefined : proxyEnvironment(settings),
    resources: {
      requests: { cpu: canonicalQuantity(cpu ?? "100m"), memory: canonicalQuantity(memory ?? "256Mi") },
      limits: {
        ...(cpu === undefined ? {} : { cpu: canonicalQuantity(cpu) }),
        memory: canonicalQuantity(memory ?? "1Gi"),
      },
    },
    volumeMounts: [
      { name: volumeName, mountPath: CACHE_PATH, ...(isInPlace ? { readOnly: true } : {}) },
      ...(settings.cacheCaConfigMap === undefined
        ? []
        : [{ name: "ca", mountPath: CA_FOLDER, readOnly: true }]),
    ],
    terminationMessagePath: RESULT_PATH,
    terminationMessagePolicy: "File",
    // No user is set: an init container must run as the pod's user, who owns the folders that earlier pods filled.
    securityContext: UNPRIVILEGED,
  };
}

/** Allows DNS, and the source's ports outside the networks that sources must not be in. Weights that are used in place need no network. */
export function buildFetchPolicy({ model, volume }: Download, settings: CacheSettings): NetworkPolicy {
  const { source } = volume;
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: jobMetadata(model, volume),
    spec: {
      podSelector: { matchLabels: { "batch.kubernetes.io/job-name": fetchJobName(volume) } },
      policyTypes: ["Ingress", "Egress"],
      egress:
        source.kind === "pvc"
          ? []
          : [
              { ports: ["UDP", "TCP"].map((protocol) => ({ protocol, port: 53 })) },
              { to: allowedBlocks(settings), ports: sourcePorts(source, settings) },
            ],
    },
  };
}

function fetchArguments(
  { spec }: Model,
  { source, folder }: CacheVolumeSpec,
  settings: CacheSettings,
  revision: string | undefined,
): string[] {
  const inPlace = source.kind === "pvc" ? `file://${CACHE_PATH}/${encodeURI(source.path)}` : undefined;
  const flag = (name: string, value?: string) => (value === undefined ? [] : [`--${name}=${value}`]);
  return [
    "fetch",
    inPlace ?? spec.source,
    `--to=${CACHE_PATH}`,
    ...flag("folder", folder === "" ? undefined : folder),
    ...(spec.files ?? []).map((file) => `--file=${file}`),
    ...(spec.ignorePatterns ?? []).map((pattern) => `--ignore=${pattern}`),
    ...flag("mmproj", spec.mmproj),
    ...flag("sha256", spec.sha256),
    ...flag("quantization", spec.quantization),
    ...flag("format", spec.format),
    ...(inPlace === undefined ? networkFlags(settings, revision) : []),
    `--result=${RESULT_PATH}`,
  ];
}

function networkFlags(settings: CacheSettings, revision: string | undefined): string[] {
  const { ollamaRegistry, allowLoopback, allowPrivate, allowNetworks, cacheCaConfigMap } = settings;
  return [
    ...(revision === undefined ? [] : [`--revision=${revision}`]),
    `--hf-endpoint=${settings.hfEndpoint}`,
    ...(ollamaRegistry === undefined ? [] : [`--ollama-registry=${ollamaRegistry}`]),
    ...(allowLoopback ? ["--allow-loopback"] : []),
    ...(allowPrivate ? ["--allow-private"] : []),
    ...allowNetworks.map((network) => `--allow-network=${network}`),
    ...(cacheCaConfigMap === undefined ? [] : [`--ca=${CA_FOLDER}/ca.crt`]),
  ];
}

/** The kubelet would expand $(NAME) in a password. */
function proxyEnvironment({ proxyVariables = [] }: CacheSettings): Container["env"] {
  if (proxyVariables.length === 0) return undefined;
  return proxyVariables.map(({ name, value }) => ({ name, value: literal(value) }));
}

/** The kubelet expands $(NAME) from the environment, which could put the value of a Secret into an address. */
function literal(argument: string): string {
  return argument.replaceAll("$", "$$$$");
}

/** Ports of the source's address and of proxies; any port if a Secret may choose the endpoint. */
function sourcePorts(source: RemoteSource, settings: CacheSettings) {
  const address = kindOf(source).origin?.(source, settings);
  if (address === undefined) return [{ protocol: "TCP" }];
  const proxies = (settings.proxyVariables ?? [])
    .filter(({ name }) => name !== "NO_PROXY")
    .flatMap(({ value }) => URL.parse(value.includes("://") ? value : `http://${value}`) ?? []);
  const named = [new URL(address), ...proxies].flatMap(({ port }) => (port === "" ? [] : [Number(port)]));
  const ports = new Set([443, 80, ...named]);
  return [...ports].map((each) => ({ protocol: "TCP", port: each }));
}

function allowedBlocks({ allowPrivate, allowNetworks }: CacheSettings) {
  const refused = [...FORBIDDEN_NETWORKS, ...(allowPrivate ? [] : PRIVATE_NETWORKS)];
  const all = ["0.0.0.0/0", "::/0"].map((cidr) => {
    const isIPv6 = cidr.includes(":");
    return { ipBlock: { cidr, except: refused.filter((network) => network.includes(":") === isIPv6) } };
  });
  return [...all, ...allowNetworks.map((cidr) => ({ ipBlock: { cidr } }))];
}

function jobMetadata(model: Model, volume: CacheVolumeSpec): ObjectMeta {
  return {
    name: fetchJobName(volume),
    namespace: namespaceOf(model),
    labels: jobLabels(model),
    ...ownedBy(model),
  };
}

function jobLabels(model: Model): Record<string, string> {
  return {
    ...MANAGED,
    ...familyLabels(model),
    [LABEL_MODEL]: shortName(model.metadata.name, "", 63),
    [LABEL_MODEL_CACHE]: cacheKeyOf(model),
  };
}

/** The owner reference by which the garbage collector removes an object with its Model. */
export function ownedBy({ metadata }: Model): Pick<ObjectMeta, "ownerReferences"> {
  const { name, uid = "" } = metadata;
  return { ownerReferences: [{ apiVersion: API_VERSION, kind: "Model", name, uid }] };
}

export function namespaceOf({ metadata }: Model): string {
  return metadata.namespace ?? "default";
}

export function shortName(name: string, suffix: string, longest: number): string {
  const full = `${name}${suffix}`;
  if (full.length <= longest) return full;
  const digest = hash(name, 8);
  return `${name.slice(0, longest - suffix.length - digest.length - 1)}-${digest}${suffix}`;
}

function unlessEmpty<T>(list: readonly T[] = []): readonly T[] | undefined {
  return list.length === 0 ? undefined : list;
}
