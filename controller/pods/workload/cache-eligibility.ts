/** Decides which Models are downloaded to a volume, to which volume, and which are refused. Pure. */
import { type ErrorCode, errorCatalog, MetalbridgeError } from "../../../src/api/errors.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { Model } from "../../../src/api/model.ts";
import { formatOf } from "../../../src/capacity/resolve.ts";
import { platformOf, runsOn } from "../../../src/capacity/runs-on.ts";
import { isPulledByOllama } from "../../../src/engines/ollama/pulled.ts";
import { isRemote, parseSource } from "../../../src/models/source/parse.ts";
import { cacheClaimName } from "./cache-claim.ts";
import type { CacheSettings, MountedWeights } from "./contract.ts";
import { type CacheVolumeSpec, cacheKeyOf } from "./model-cache.ts";

export interface CacheRefusal {
  readonly code: ErrorCode;
  readonly message: string;
}

export type DesiredCache =
  /** No pod needs the weights, or each pod fetches them. With a refusal, pods need them and only hosts can serve the Model. */
  | { readonly at: "none"; readonly refusal?: CacheRefusal }
  | ({ readonly at: "refused" } & CacheRefusal)
  | CacheVolumeSpec;

/** The Model that a service runs; undefined if it does not exist. */
type MainModelOf = (service: InferenceService) => Model | undefined;

/** True if the Model is for hosts: its accelerator is the default one, which only hosts have. */
export function isForHosts(model: Model): boolean {
  return platformOf(model) === "Hosts";
}

/** True if a pod may need the weights of a Model. `services` are those that name it as weights, draft or adapter. */
export function needsCache(
  model: Model,
  services: readonly InferenceService[],
  mainOf: MainModelOf = () => model,
): boolean {
  if (services.length > 0)
    return services.some((service) => runsOn(service, mainOf(service) ?? model) !== "Hosts");
  return !isForHosts(model);
}

/** The volume that the Model's spec and its services ask for. Throws nothing. */
export function desiredCacheOf(
  model: Model,
  services: readonly InferenceService[],
  settings: CacheSettings,
  mainOf: MainModelOf = () => model,
): DesiredCache {
  if (!needsCache(model, services, mainOf)) return { at: "none" };
  const platformFor = (service: InferenceService) => runsOn(service, mainOf(service) ?? model);
  try {
    // A service on hosts reads no volume, so it names no claim.
    const inPods = services.filter((service) => platformFor(service) !== "Hosts");
    const isMain =
      inPods.length === 0 ||
      inPods.some((service) => (mainOf(service) ?? model).metadata.name === model.metadata.name);
    return resolveCache(model, inPods, settings, isMain);
  } catch (error) {
    if (!(error instanceof MetalbridgeError)) throw error;
    const refusal = { code: error.code, message: error.message };
    // What pods cannot use must not stop the services on hosts.
    const isOnHosts = services.some((service) => platformFor(service) !== "Pods");
    return isOnHosts ? { at: "none", refusal } : { at: "refused", ...refusal };
  }
}

/** For an installation that runs nothing in pods: no volume is needed, and a Model that only pods could run is refused. */
export function desiredCacheOnHosts(
  model: Model,
  services: readonly InferenceService[],
  mainOf: MainModelOf = () => model,
): DesiredCache {
  const canRun =
    isForHosts(model) || services.some((service) => runsOn(service, mainOf(service) ?? model) !== "Pods");
  if (canRun && !model.spec.source.startsWith("pvc://")) return { at: "none" };
  return { at: "refused", code: "PodsDisabled", message: podsDisabled("a Model") };
}

/** The message for error `PodsDisabled`. */
export function podsDisabled(what: string): string {
  const { do: remedy } = errorCatalog.PodsDisabled;
  return `this installation runs services on hosts only, and this is ${what} for pods. To do: ${remedy}.`;
}

function resolveCache(
  model: Model,
  services: readonly InferenceService[],
  settings: CacheSettings,
  isMain: boolean,
): DesiredCache {
  const inPlace = parseSource(model.spec.source);
  if (inPlace.kind === "pvc")
    return { at: "volume", claimName: checkClaim(inPlace.claim), isOurs: false, folder: "", source: inPlace };
  if (isMain && isPulledInPods(model, settings)) return { at: "none" };
  if (weightsOnNode(model, settings) !== undefined) return { at: "none" };
  const claims = claimsOf(services);
  if (claims === "none") return { at: "none" };
  const source = podSource(model, isMain);
  const [first, ...others] = [...claims].sort();
  if (others.length > 0) throw ambiguous(claims);
  const isOurs = first === undefined || first === "";
  const claimName = isOurs ? cacheClaimName(model, settings) : checkClaim(first);
  return { at: "volume", claimName, isOurs, folder: cacheKeyOf(model), source };
}

/** True if Ollama pulls the Model when a pod starts, so that no volume has it. */
export function isPulledInPods(
  { spec: { source, format } }: Model,
  { ollamaRegistry }: Partial<Pick<CacheSettings, "ollamaRegistry">> = {},
): boolean {
  return format !== "gguf" && isPulledByOllama(source, ollamaRegistry);
}

/** The source that pods get their weights from. Throws `SourceNotSupported`. */
export function podSource({ spec }: Model, isMain = true): CacheVolumeSpec["source"] {
  const source = parseSource(spec.source);
  if (source.kind === "pvc") return source;
  if (source.kind === "ollama" && spec.format !== "gguf")
    throw new MetalbridgeError(
      "SourceNotSupported",
      isMain
        ? "pods do not pull from this registry: set spec.format to gguf, or --ollama-registry of the controller"
        : "Ollama pulls only the main Model of a service in pods: set spec.format of this Model to gguf",
    );
  if (!isRemote(source)) {
    const message = `pods cannot fetch file:// sources, and ${source.path} is below none of the folders in pods.hostPaths of the chart (--host-paths)`;
    throw new MetalbridgeError("SourceNotSupported", message, {
      summary:
        "use a source that is fetched over the network, or pvc://, for models that run in pods, or have an administrator allow the folder",
    });
  }
  return source;
}

const FILE_OF_WEIGHTS = /\.(gguf|safetensors|bin|pt|pth|npz)$/i;

/**
 * Weights of a file:// source below a folder that the administrator allows; undefined for all others. The volume is that folder:
 * the kubelet would follow links in a longer path, and refuses those in the `subPath` of a mount that lead out of the volume.
 * Throws `SourceNotSupported` for what only an agent can check or choose in the folder.
 */
export function weightsOnNode(
  model: Model,
  { hostPaths = [] }: Partial<Pick<CacheSettings, "hostPaths">> = {},
): MountedWeights | undefined {
  const source = parseSource(model.spec.source);
  if (source.kind !== "file") return undefined;
  const allowed = hostPaths.filter((root) => source.path.startsWith(`${root}/`));
  const [hostPath] = allowed.toSorted((one, other) => other.length - one.length);
  if (hostPath === undefined) return undefined;
  const segments = source.path.slice(hostPath.length + 1).split("/");
  const file = segments.at(-1) ?? "";
  const isFolder = !FILE_OF_WEIGHTS.test(file);
  const problem = onlyOnHosts(model, isFolder);
  if (problem !== undefined) throw new MetalbridgeError("SourceNotSupported", problem);
  return { hostPath, folder: segments.slice(0, -1).join("/"), file, isFolder };
}

/** Reason why pods, which use a path of their node as it is, cannot serve what the Model asks for. */
function onlyOnHosts(model: Model, isFolder: boolean): string | undefined {
  const { sha256, ignorePatterns = [] } = model.spec;
  if (sha256 !== undefined)
    return "pods do not verify spec.sha256 of a file on their node: remove it, or use a source that is downloaded";
  if (ignorePatterns.length > 0)
    return "pods do not apply spec.ignorePatterns to a path of their node: remove it, and name a path without these files";
  if (isFolder && formatOf(model) === "gguf")
    return "spec.source names no file, and pods choose none in a folder of their node: name the .gguf file, or set spec.format if the weights are of another format";
  return undefined;
}

/** Claims that the services name; the empty string means the namespace's cache. `none` if no service reads a volume. */
function claimsOf(services: readonly InferenceService[]): ReadonlySet<string> | "none" {
  const readers = services.filter(
    ({ spec }) => spec.modelCache?.persistence !== "Ephemeral" && spec.skipModelInit !== true,
  );
  if (services.length > 0 && readers.length === 0) return "none";
  return new Set(readers.map(({ spec }) => spec.modelCache?.claimName ?? ""));
}

const CLAIM_NAME = /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/;

function checkClaim(name: string): string {
  if (CLAIM_NAME.test(name)) return name;
  const hint = name.includes("/") ? ": a claim of another namespace cannot be mounted" : "";
  throw new MetalbridgeError("VolumeClaimNotFound", `${name} is not the name of a claim${hint}`);
}

function ambiguous(claims: ReadonlySet<string>): MetalbridgeError {
  const shown = [...claims].sort().map((name) => (name === "" ? "the model cache of the namespace" : name));
  const message = `services of this Model name different claims in spec.modelCache.claimName: ${shown.join(", ")}`;
  return new MetalbridgeError("ModelCacheAmbiguous", message);
}
