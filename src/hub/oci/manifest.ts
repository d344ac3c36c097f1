/** Reads manifests of OCI registries: the files of a model artifact. Pure. */
import { z } from "zod";
import { MetalbridgeError } from "../../api/errors.ts";
import { parseJson } from "../../util/parse-json.ts";
import type { FileList, ListedFile } from "../remote-source.ts";

const MAX_LAYERS = 1_024;

const descriptorSchema = z.object({
  mediaType: z.string().max(256).default(""),
  digest: z.string().max(256),
  size: z.int().min(0),
  artifactType: z.string().max(256).optional(),
  annotations: z.record(z.string(), z.string()).nullish(),
  platform: z.object({ os: z.string().max(64).optional() }).nullish(),
});

const manifestSchema = z.union([
  z.object({ manifests: z.array(descriptorSchema) }),
  z.object({ layers: z.array(descriptorSchema) }),
]);

export type OciDescriptor = z.output<typeof descriptorSchema>;

export type OciManifest =
  | { readonly at: "index"; readonly manifests: readonly OciDescriptor[] }
  | { readonly at: "image"; readonly layers: readonly OciDescriptor[] };

/** Throws MetalbridgeError for text that is neither a manifest nor an index. `shown` is for messages. */
export function parseOciManifest(text: string, shown: string): OciManifest {
  const { data } = manifestSchema.safeParse(parseJson(text));
  if (data === undefined)
    throw new MetalbridgeError("SourceRefused", `${shown} is not a manifest that Metalbridge can read`);
  if ("manifests" in data) return { at: "index", manifests: data.manifests };
  const { length } = data.layers;
  if (length > MAX_LAYERS)
    throw new MetalbridgeError("SourceRefused", `${shown} has ${length} layers; the limit is ${MAX_LAYERS}`);
  return { at: "image", layers: data.layers };
}

/** Selects the manifest of a model type, or else the only manifest, from an index. Throws MetalbridgeError. */
export function chooseManifest(manifests: readonly OciDescriptor[], shown: string): OciDescriptor {
  // Builders add attestations as manifests of an unknown platform.
  const real = manifests.filter(({ platform }) => platform?.os !== "unknown");
  const models = real.filter(({ artifactType = "" }) => /model|gguf/i.test(artifactType));
  const [first, ...others] = models.length > 0 ? models : real;
  if (first === undefined)
    throw new MetalbridgeError("SourceIsNotAModel", `the index ${shown} has no manifest of a model`);
  if (others.length === 0) return first;
  const digests = [first, ...others].slice(0, 4).map(({ digest }) => digest);
  throw new MetalbridgeError(
    "SourceAmbiguous",
    `the index ${shown} has ${others.length + 1} manifests (${digests.join(", ")})`,
    { summary: "name one by its digest: oci://registry/repository@sha256:…" },
  );
}

/** The hex digits of a SHA-256 digest. Throws MetalbridgeError for other algorithms. */
export function hexOf(digest: string, shown: string): string {
  const hex = /^sha256:([0-9a-f]{64})$/.exec(digest)?.[1];
  if (hex !== undefined) return hex;
  throw new MetalbridgeError("SourceRefused", `${shown} has a digest that is not a sha256`);
}

/**
 * Lists the files of an artifact in the layout of ORAS, ModelPack or Docker, with one file per layer. Archives and layers
 * without a name are ignored. Throws SourceNotSupported if the model needs them.
 */
export function filesOfArtifact(layers: readonly OciDescriptor[], shown: string): FileList {
  const unnamed = layers.filter((layer) => isGgufType(layer) && nameOf(layer) === undefined);
  const named = layers.map((layer) => ({ layer, name: nameOf(layer) ?? dockerName(layer, unnamed) }));
  const files = new Map<string, ListedFile>();
  for (const { layer, name } of named) {
    if (name === undefined || isArchive(layer)) continue;
    const sha256 = hexOf(layer.digest, shown);
    if ((files.get(name)?.sha256 ?? sha256) !== sha256)
      throw new MetalbridgeError("SourceRefused", `${shown} has two layers named ${name}`);
    files.set(name, { name, sizeBytes: layer.size, sha256 });
  }
  const isGguf = [...files.keys()].some((name) => name.toLowerCase().endsWith(".gguf"));
  const unusable = named.find(
    ({ layer, name }) => !isAuxiliary(layer) && (name === undefined || isArchive(layer)),
  );
  // A GGUF needs no other files; other formats need all files.
  if (!isGguf && unusable !== undefined) throw notUsable(unusable.layer, shown);
  const projector = named.find(({ layer }) => /[./]mmproj$/.test(layer.mediaType))?.name;
  return { files: [...files.values()], projector };
}

const OLLAMA_LAYER = "application/vnd.ollama.image.";

/** Lists the GGUF and the projector of a model in Ollama's layout. Throws MetalbridgeError for models that only Ollama can run. */
export function filesOfOllama(layers: readonly OciDescriptor[], shown: string): FileList {
  const ofType = (type: string) => layers.filter(({ mediaType }) => mediaType === `${OLLAMA_LAYER}${type}`);
  const onlyOllama = (predicate: string) =>
    new MetalbridgeError("SourceNotSupported", `${shown} ${predicate}`, {
      summary: "remove spec.format from the Model, so that Ollama on a host pulls and runs it",
    });
  const [model, ...parts] = ofType("model");
  const [projector, ...projectors] = ofType("projector");
  if (layers.some(({ mediaType }) => mediaType.startsWith(`${OLLAMA_LAYER}tensor`)))
    throw onlyOllama("holds single tensors instead of a GGUF file");
  if (model === undefined)
    throw new MetalbridgeError("SourceIsNotAModel", `${shown} has no weights (a cloud model has none)`);
  if (ofType("adapter").length > 0)
    throw onlyOllama("adds a LoRA adapter to its model, which only Ollama applies");
  if (parts.length > 0 || projectors.length > 0)
    throw onlyOllama(`has ${parts.length + 1} layers of weights and ${projectors.length + 1} projectors`);
  const fileOf = (name: string, { digest, size }: OciDescriptor): ListedFile => ({
    name,
    sizeBytes: size,
    sha256: hexOf(digest, shown),
  });
  const files = [fileOf("model.gguf", model)];
  if (projector === undefined) return { files };
  return { files: [...files, fileOf("projector.gguf", projector)], projector: "projector.gguf" };
}

function nameOf({ annotations }: OciDescriptor): string | undefined {
  return annotations?.["org.cncf.model.filepath"] ?? annotations?.["org.opencontainers.image.title"];
}

function isGgufType({ mediaType }: OciDescriptor): boolean {
  return /[./]gguf(\.v\d+)?$/.test(mediaType);
}

/** A name for a layer of Docker, whose GGUF layers have no names. The parts of a split model are in order. */
function dockerName(layer: OciDescriptor, unnamed: readonly OciDescriptor[]): string | undefined {
  if (/[./]mmproj$/.test(layer.mediaType)) return "mmproj.gguf";
  if (!isGgufType(layer)) return undefined;
  if (unnamed.length === 1) return "model.gguf";
  const digits = (value: number) => String(value).padStart(5, "0");
  return `model-${digits(unnamed.indexOf(layer) + 1)}-of-${digits(unnamed.length)}.gguf`;
}

/** ORAS gives single files the media type of a tar, and marks the folders that it packed. */
function isArchive(layer: OciDescriptor): boolean {
  const { mediaType, annotations } = layer;
  if (annotations?.["io.deis.oras.content.unpack"] === "true") return true;
  if (mediaType === "application/vnd.oci.image.layer.v1.tar") return nameOf(layer) === undefined;
  return /[.+/]tar([.+](gzip|gz|zstd))?$/.test(mediaType);
}

/** True for files that no engine reads: documents, source code, data sets, licenses. */
function isAuxiliary({ mediaType }: OciDescriptor): boolean {
  return /\.(doc|code|dataset)\.v\d|[./]license$/.test(mediaType);
}

function notUsable(layer: OciDescriptor, shown: string): MetalbridgeError {
  const problem = isArchive(layer)
    ? `is an archive (${layer.mediaType})`
    : `has no name (${layer.mediaType}, no annotation org.opencontainers.image.title)`;
  return new MetalbridgeError(
    "SourceNotSupported",
    `${shown} has a layer that ${problem}; each file must be a separate layer with its name`,
    { summary: "push the files themselves: oras push REFERENCE model.gguf, or modctl build --raw" },
  );
}
