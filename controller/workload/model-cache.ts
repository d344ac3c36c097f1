/** The objects of the model cache: the Job that downloads to a claim, and the NetworkPolicy of the Job. Pure. */
import { canonicalQuantity } from "../../src/api/fields/quantity.ts";
import { API_VERSION, LABEL_MODEL, LABEL_MODEL_CACHE } from "../../src/api/group.ts";
import type { ObjectMeta } from "../../src/api/metadata.ts";
import type { Model } from "../../src/api/model.ts";
import type { Container, Job, NetworkPolicy } from "../../src/kube/workload-objects.ts";
import { FETCH_EXIT } from "../../src/models/fetch-result.ts";
import { CREDENTIAL_ENV_PREFIX } from "../../src/models/source/credentials.ts";
import { kindOf, type ModelSource, type RemoteSource } from "../../src/models/source/kinds/registry.ts";
import { FORBIDDEN_NETWORKS, PRIVATE_NETWORKS } from "../../src/models/source/networks.ts";
import { canonicalJson, hash } from "../../src/util/hash.ts";
import { type CacheSettings, type MountedWeights, POD_USER } from "./contract.ts";
import { WITHOUT_MESH } from "./one-shot-pod.ts";

export interface CacheVolumeSpec {
  readonly at: "volume";
  readonly claimName: string;
  /** The claim is made by the controller; others are used as they are. */
  readonly isOurs: boolean;
  /** Folder on the volume; empty where the source is a volume itself, which is used in place. */
  readonly folder: string;
  readonly source: RemoteSource | Extract<ModelSource, { kind: "pvc" }>;
}

/** A download: what for, to where. `key` changes with everything that changes the outcome. */
export interface Download {
  readonly model: Model;
  readonly wish: CacheVolumeSpec;
  readonly key: string;
  /** 1 for the first Job of this key. */
  readonly attempt: number;
  /** Commit that the Model is pinned to. */
  readonly revision?: string | undefined;
  /** Version of the source's Secret; undefined where there is none, or it cannot be read. */
  readonly secretVersion?: string | undefined;
  /** Quantity: what the claim holds, or asks for until it is bound. */
  readonly capacity?: string | undefined;
  /** Further name for what engines open, in the folder: for who has to know it before the download. */
  readonly link?: string | undefined;
  /** What the folder has of other downloads is removed where the disk would be full. */
  readonly makesRoom?: boolean | undefined;
  /** Of the volume in the pod; `cache` unless given. */
  readonly volumeName?: string | undefined;
}

/** On a download Job: what it downloads, and the how many-th Job for that it is. */
export const ANNOTATION_FETCH_KEY = "metalbridge.dev/fetch-key";
export const ANNOTATION_ATTEMPT = "metalbridge.dev/attempt";
/** Of the Model's spec that the Job was made from: resources, tolerations and Secret are not in the key. */
export const ANNOTATION_GENERATION = "metalbridge.dev/model-generation";
/** Hash of the image and its pull secrets: a node that cannot pull one may be able to pull the next. */
export const ANNOTATION_IMAGE_KEY = "metalbridge.dev/image-key";
/** Version of the source's Secret when the Job was made. */
export const ANNOTATION_SECRET_VERSION = "metalbridge.dev/secret-version";
/** Capacity of the claim when the Job was made. */
export const ANNOTATION_CAPACITY = "metalbridge.dev/claim-capacity";

export const FETCH_CONTAINER = "fetch";
/** Where the container that downloads writes. */
export const CACHE_VOLUME = "cache";
const CACHE_PATH = "/cache";
const CA_FOLDER = "/etc/metalbridge/ca";
const RESULT_PATH = "/dev/termination-log";
export const MANAGED = { "app.kubernetes.io/managed-by": "metalbridge" };
const DAY_SECONDS = 86_400;
/** With the delays of the Job controller (10 s, doubled) an outage of ten minutes. */
const RETRIES = 6;
/** `metalbridge` exits so for a bad command line and for a bug. */
const EXIT_USAGE = 2;
const EXIT_BUG = 70;

/** Key of a source: its folder on every volume. */
export function cacheKeyOf({ spec }: Model): string {
  return hash(spec.source, 16);
}

/** Where the weights of a Model are for its pods; undefined until they are complete and verified. */
export function weightsOnVolume({ status }: Model): MountedWeights | undefined {
  const { phase, claimName = "", folder = "", file, mmproj } = status?.cache ?? {};
  if (phase !== "Ready" || file === undefined) return undefined;
  const { format, files = [] } = status ?? {};
  const isFile =
    format === "gguf" || files.length === 0 || files.some((name) => `/${file}`.endsWith(`/${name}`));
  return {
    claimName,
    folder,
    file,
    ...(isFile ? {} : { isFolder: true }),
    ...(mmproj === undefined ? {} : { projector: mmproj }),
  };
}

/** Changes with the files, and with the volume: an empty one of the same name has nothing. */
export function downloadKey(
  model: Model,
  wish: CacheVolumeSpec,
  claimUid: string,
  revision?: string,
): string {
  return hash(canonicalJson({ ...requestOf(model, revision), claimUid, folder: wish.folder }), 16);
}

/** Name in the folder of a volume for what these pods open: others may open other files of the same source. */
export function linkOf(model: Model): string {
  return `model-${hash(canonicalJson(requestOf(model, model.status?.pinned?.revision)), 16)}`;
}

/** The Secret too: it may choose the endpoint, and what it opens is not for a Model that names another. */
function requestOf({ spec }: Model, revision: string | undefined) {
  const { source, files, mmproj, sha256, quantization, format, sourceSecretRef } = spec;
  const secret = sourceSecretRef?.name;
  return { source, files, mmproj, sha256: sha256?.toLowerCase(), quantization, format, revision, secret };
}

/** The image as configured: admission may change the one in the Job. */
export function imageKey({ image, imagePullSecrets }: CacheSettings): string {
  return hash(canonicalJson({ image, imagePullSecrets }), 16);
}

/** The same for every Model that downloads to the same folder: only one of them can have a Job at a time. */
export function fetchJobName({ claimName, folder, source }: CacheVolumeSpec): string {
  const place = folder === "" && source.kind === "pvc" ? source.path : folder;
  return `metalbridge-fetch-${hash(`${claimName}/${place}`, 16)}`;
}

export function buildFetchJob(download: Download, settings: CacheSettings): Job {
  const { model, wish, key, attempt, secretVersion, capacity } = download;
  const isInPlace = wish.folder === "";
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: {
      ...jobMetadata(model, wish),
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
      // Two pods at once would write the same partial file.
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
          labels: { ...WITHOUT_MESH.labels, ...jobLabels(model) },
          annotations: WITHOUT_MESH.annotations,
        },
        spec: {
          restartPolicy: "Never",
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          nodeSelector: { "kubernetes.io/os": "linux" },
          ...some("tolerations", model.spec.prefetchTolerations),
          ...some(
            "imagePullSecrets",
            settings.imagePullSecrets.map((name) => ({ name })),
          ),
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
              persistentVolumeClaim: { claimName: wish.claimName, ...(isInPlace ? { readOnly: true } : {}) },
            },
            ...caVolumes(settings),
          ],
        },
      },
    },
  };
}

/** With the authorities that the download trusts too. */
export function caVolumes({ cacheCaConfigMap: name }: CacheSettings) {
  return name === undefined ? [] : [{ name: "ca", configMap: { name } }];
}

/** The container that downloads to the volume `cache`: of the Job, and as an init container of pods without a volume. */
export function fetchContainer(
  download: Omit<Download, "key" | "attempt">,
  settings: CacheSettings,
): Container {
  const { model, wish, revision, link, makesRoom, volumeName = CACHE_VOLUME } = download;
  const { resources = {}, sourceSecretRef } = model.spec;
  const isInPlace = wish.folder === "";
  const { cpu, memory } = resources;
  return {
    name: FETCH_CONTAINER,
    image: settings.image ?? "",
    args: [
      ...fetchArguments(model, wish, settings, revision),
      ...(link === undefined ? [] : [`--link=${link}`]),
      ...(makesRoom === true ? ["--make-room"] : []),
    ].map(literal),
    ...(sourceSecretRef && {
      envFrom: [{ prefix: CREDENTIAL_ENV_PREFIX, secretRef: { name: sourceSecretRef.name } }],
    }),
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
    // No user: as init container it is the pod's, to which the folders that earlier pods have filled belong.
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    },
  };
}

/** DNS, and the web outside the networks that sources must not be in; nothing at all for weights used in place. */
export function buildFetchPolicy({ model, wish }: Download, settings: CacheSettings): NetworkPolicy {
  const { source } = wish;
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: jobMetadata(model, wish),
    spec: {
      podSelector: { matchLabels: { "batch.kubernetes.io/job-name": fetchJobName(wish) } },
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

/** Kubelet replaces $(NAME) by the environment, and so a Secret's value could get into an address. */
function literal(argument: string): string {
  return argument.replaceAll("$", "$$$$");
}

/** Of the address; where a Secret may name the endpoint, any. */
function sourcePorts(source: RemoteSource, settings: CacheSettings) {
  const address = kindOf(source).origin?.(source, settings);
  if (address === undefined) return [{ protocol: "TCP" }];
  const { port } = new URL(address);
  const ports = new Set([443, 80, ...(port === "" ? [] : [Number(port)])]);
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

function jobMetadata(model: Model, wish: CacheVolumeSpec): ObjectMeta {
  return {
    name: fetchJobName(wish),
    namespace: namespaceOf(model),
    labels: jobLabels(model),
    ...ownedBy(model),
  };
}

function jobLabels(model: Model): Record<string, string> {
  return {
    ...MANAGED,
    [LABEL_MODEL]: shortName(model.metadata.name, "", 63),
    [LABEL_MODEL_CACHE]: cacheKeyOf(model),
  };
}

/** The garbage collector removes it with the Model; the order does not matter. */
export function ownedBy({ metadata }: Model): Pick<ObjectMeta, "ownerReferences"> {
  const { name, uid = "" } = metadata;
  return { ownerReferences: [{ apiVersion: API_VERSION, kind: "Model", name, uid }] };
}

export function namespaceOf({ metadata }: Model): string {
  return metadata.namespace ?? "default";
}

export function shortName(name: string, suffix: string, longest: number): string {
  const whole = `${name}${suffix}`;
  if (whole.length <= longest) return whole;
  const digest = hash(name, 8);
  return `${name.slice(0, longest - suffix.length - digest.length - 1)}-${digest}${suffix}`;
}

function some<K extends string, T>(key: K, list: readonly T[] | undefined): { [P in K]?: readonly T[] } {
  return (list === undefined || list.length === 0 ? {} : { [key]: list }) as { [P in K]?: readonly T[] };
}
