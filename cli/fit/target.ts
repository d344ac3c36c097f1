/** The service and the Model to check: from the cluster, from a manifest with its dry run, or constructed for a GGUF file. */

import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { parseAllDocuments } from "yaml";
import { z } from "zod";
import { isAddress } from "../../fitness/catalog/weights.ts";
import { backendRuntimeSchema } from "../../src/api/backend-runtime.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { ggufSchema } from "../../src/api/fields/gguf.ts";
import { type InferenceService, inferenceServiceSpecSchema } from "../../src/api/inference-service/index.ts";
import { allModelsOf, mainModelOf } from "../../src/api/inference-service/roles.ts";
import { BACKEND_RUNTIMES, INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import { type Model, modelSchema } from "../../src/api/model.ts";
import type { BackendRevision } from "../../src/capacity/backend.ts";
import { findNamedModels, type NamedModels } from "../../src/capacity/named-models.ts";
import { ACCESS_REVIEWS } from "../../src/kube/kinds.ts";
import type { AccessReview } from "../../src/kube/objects.ts";
import type { ApiResult } from "../../src/kube/types.ts";
import { parseSource } from "../../src/models/source/parse.ts";
import { readCatalogFiles } from "../catalog/read.ts";
import { weightsOf } from "../catalog/weights.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { explainAttempt } from "../cluster/failure.ts";
import { findIfPresent, findObject, notFound } from "../cluster/find.ts";
import { readGguf } from "../gguf/read.ts";
import { type FitFlags, specOf } from "./flags.ts";

export interface FitTarget extends NamedModels {
  readonly service: InferenceService;
  readonly model: Model;
  /** The BackendRuntime that the service names; undefined if there is none of that name. */
  readonly backend?: BackendRevision | undefined;
  /** Why the API server did not check the manifest. */
  readonly unchecked?: string;
}

const objectSchema = z.looseObject({
  kind: z.string(),
  metadata: z.looseObject({ name: z.string(), namespace: z.string().optional() }),
  spec: z.unknown(),
});
type Manifest = z.output<typeof objectSchema>;

/** Throws MetalbridgeError if there is nothing to estimate. */
export async function readFitTarget(
  cluster: Cluster,
  name: string | undefined,
  flags: FitFlags,
): Promise<FitTarget> {
  if (flags.filename !== undefined) return fromManifest(cluster, flags.filename, flags);
  if (name === undefined)
    throw new MetalbridgeError("ManifestInvalid", "there is nothing to check", {
      summary: "name a Model or a GGUF file, or give an InferenceService with --filename",
      command: "metalbridge fit --help",
    });
  const model = await modelNamed(cluster, name, flags);
  const service = serviceOf(cluster, { name: model.metadata.name, spec: specOf(flags) }, model.metadata.name);
  return { service, model };
}

/** Finds a file, a Model of the namespace, or a model of the catalog, in this order. Throws ModelNotFound for other names. */
async function modelNamed(cluster: Cluster, name: string, flags: FitFlags): Promise<Model> {
  const { quantization } = flags;
  if (isAddress(name) || name.endsWith(".gguf") || existsSync(name))
    return modelOfFile(cluster, name, name, quantization);
  const isName = !/[/:]/.test(name);
  const found = isName ? await findIfPresent(cluster, MODELS, name) : undefined;
  if (found !== undefined) return found;
  try {
    const weights = weightsOf(await readCatalogFiles(flags.catalog), name, { quantization });
    return await modelOfFile(cluster, weights.source, weights.model ?? name, weights.quantization);
  } catch (error) {
    const isUnknown = error instanceof MetalbridgeError && error.code === "CatalogModelUnknown";
    if (!isUnknown || !isName) throw error;
    return notFound(cluster, MODELS, name, error.remedy);
  }
}

async function fromManifest(cluster: Cluster, file: string, flags: FitFlags): Promise<FitTarget> {
  const objects = await readManifests(file);
  const services = objects.filter(({ kind }) => kind === "InferenceService");
  const [first] = services;
  if (first === undefined || services.length > 1)
    throw new MetalbridgeError(
      "ManifestInvalid",
      `${file} has ${services.length} InferenceServices; exactly one is required`,
    );
  const { metadata, spec } = first;
  const place = { ...cluster, namespace: metadata.namespace ?? cluster.namespace };
  const given = typeof spec === "object" && spec !== null ? spec : {};
  const { name } = metadata;
  const desired = { ...given, ...specOf(flags) };
  // Reports plain mistakes here, with a shorter message than the API server's.
  const read = serviceOf(place, { name, spec: desired, file });
  const object = { ...first, metadata: { ...metadata, name, namespace: place.namespace }, spec: desired };
  const answer = await dryRunService(place, object as unknown as InferenceService, file);
  const service =
    answer.at === "accepted" ? serviceOf(place, { name, spec: answer.service.spec, file }) : read;
  const models = objects.filter(({ kind }) => kind === "Model");
  const found = new Map<string, Model>();
  for (const wanted of allModelsOf(service.spec)) found.set(wanted, await modelFor(place, models, wanted));
  const named = findNamedModels(service.spec, (wanted) => found.get(wanted));
  return {
    service,
    ...named,
    backend: await backendFor(place, objects, service.spec.backendRuntime?.name),
    model: named.model ?? (await modelFor(place, models, mainModelOf(service.spec))),
    unchecked: answer.at === "notChecked" ? answer.why : undefined,
  };
}

async function readManifests(file: string): Promise<readonly Manifest[]> {
  const content = await (file === "-" ? text(process.stdin) : readFile(file, "utf8")).catch(
    (cause: unknown) => {
      throw new MetalbridgeError("ManifestInvalid", `${file} cannot be read`, undefined, { cause });
    },
  );
  return parseAllDocuments(content).flatMap((document) => {
    const [error] = document.errors;
    if (error !== undefined) throw new MetalbridgeError("ManifestInvalid", `${file}: ${error.message}`);
    const value: unknown = document.toJS();
    const read = objectSchema.safeParse(value);
    return read.success ? [read.data] : [];
  });
}

/** The schema has the defaults of the API server. Rules across fields are checked by the dry run of a manifest. */
function serviceOf(
  { namespace }: Cluster,
  { name, spec, file }: { readonly name: string; readonly spec: object; readonly file?: string },
  modelRef?: string,
): InferenceService {
  const read = inferenceServiceSpecSchema.safeParse(modelRef === undefined ? spec : { ...spec, modelRef });
  if (!read.success) {
    const lines = read.error.issues.map(
      ({ path, message }) => `spec.${path.map(String).join(".")}: ${message}`,
    );
    throw new MetalbridgeError("ManifestInvalid", `${file ?? "the options"}: ${lines.join("; ")}`);
  }
  const replicas = Math.max(1, read.data.replicas);
  const creationTimestamp = new Date().toISOString();
  return {
    metadata: { name, namespace, creationTimestamp },
    spec: { ...read.data, replicas, suspend: false },
  };
}

async function modelFor(cluster: Cluster, given: readonly Manifest[], name: string): Promise<Model> {
  const manifest = given.find(({ metadata }) => metadata.name === name);
  if (manifest === undefined) return findObject(cluster, MODELS, name);
  const read = modelSchema.shape.spec.safeParse(manifest.spec);
  if (!read.success) throw new MetalbridgeError("ManifestInvalid", `Model ${name}: ${read.error.message}`);
  const { source, files } = read.data;
  const kind = parseSource(source).kind;
  if (kind === "file") return onHost(cluster, name, read.data);
  const [file] = files ?? [];
  const address = kind === "hf" && file !== undefined ? `${source}/${file}` : source;
  const found = await modelOfFile(cluster, address, name);
  return { ...found, spec: read.data };
}

/** A BackendRuntime of the manifests has the defaults of the API server; its rules are checked when it is applied. */
async function backendFor(
  cluster: Cluster,
  given: readonly Manifest[],
  name: string | undefined,
): Promise<BackendRevision | undefined> {
  if (name === undefined) return undefined;
  const manifest = given.find(({ kind, metadata }) => kind === "BackendRuntime" && metadata.name === name);
  if (manifest === undefined) {
    const found = await findIfPresent(cluster, BACKEND_RUNTIMES, name);
    return found && { name, spec: backendRuntimeSchema.shape.spec.parse(found.spec) };
  }
  const read = backendRuntimeSchema.shape.spec.safeParse(manifest.spec);
  if (read.success) return { name, spec: read.data };
  throw new MetalbridgeError("ManifestInvalid", `BackendRuntime ${name}: ${read.error.message}`);
}

/** A file on a host, which only that host can read. */
function onHost({ namespace }: Cluster, name: string, spec: Model["spec"]): Model {
  return { metadata: { name, namespace }, spec, status: { phase: "Ready" } };
}

/** The Model as the controller would publish it after it has read the header of the file. */
async function modelOfFile(
  { namespace }: Cluster,
  file: string,
  name: string,
  quantization?: string,
): Promise<Model> {
  const { summary, sizeBytes } = await readGguf(file, quantization);
  const status: Model["status"] = { phase: "Ready", format: "gguf", gguf: ggufSchema.parse(summary) };
  if (summary.weightsBytes !== undefined) status.weightsBytes = summary.weightsBytes;
  if (sizeBytes !== undefined) status.sizeBytes = sizeBytes;
  const source = file.includes("://") ? file : pathToFileURL(file).href;
  const spec = modelSchema.shape.spec.parse({ source, hardware: { accelerator: "metal" } });
  return { metadata: { name: objectNameOf(name), namespace }, spec, status };
}

/** A valid object name, derived from the name of the file. */
function objectNameOf(file: string): string {
  const base =
    file
      .split("/")
      .at(-1)
      ?.replace(/\.gguf$/i, "") ?? "";
  const name = base
    .toLowerCase()
    .replaceAll(/[^a-z0-9.-]+/g, "-")
    .replace(/^[^a-z0-9]+|[^a-z0-9]+$/g, "");
  return name === "" ? "model" : name;
}

type DryRun =
  | { readonly at: "accepted"; readonly service: InferenceService }
  /** The credential may read but not write. */
  | { readonly at: "notChecked"; readonly why: string };

interface Attempt {
  /** The verb for RBAC. */
  readonly verb: "create" | "update";
  readonly result: ApiResult<InferenceService>;
}

/** Throws `ManifestInvalid` with the message of the API server. */
async function dryRunService(cluster: Cluster, service: InferenceService, file: string): Promise<DryRun> {
  const { verb, result } = await attempt(cluster, service);
  if (result.ok) return { at: "accepted", service: result.value };
  const { name, namespace = "default" } = service.metadata;
  const { kind, message } = result.error;
  if (kind === "forbidden" && !(await mayWrite(cluster, verb, { name, namespace })))
    return { at: "notChecked", why: message };
  // Policies, webhooks and quotas also answer 403 to users who may write.
  if (kind === "invalid" || kind === "notFound" || kind === "forbidden")
    throw new MetalbridgeError("ManifestInvalid", `${file}: the API server refuses it: ${message}`);
  throw explainAttempt({ verb: "patch", kind: INFERENCE_SERVICES, name, namespace }, result.error);
}

/** Creates or updates as an apply would, because rights and policies differ between the two. */
async function attempt({ client }: Cluster, service: InferenceService): Promise<Attempt> {
  const { name, namespace = "default" } = service.metadata;
  const options = { isDryRun: true };
  const current = await client.get(INFERENCE_SERVICES, { name, namespace });
  const { resourceVersion } = current.ok ? current.value.metadata : {};
  if (resourceVersion === undefined)
    return { verb: "create", result: await client.create(INFERENCE_SERVICES, service, options) };
  const metadata = { ...service.metadata, resourceVersion };
  const changed = { ...service, metadata };
  return { verb: "update", result: await client.update(INFERENCE_SERVICES, changed, options) };
}

/** Any user may create an access review. Without an answer, the refusal counts as missing rights. */
async function mayWrite(
  { client }: Cluster,
  verb: Attempt["verb"],
  { name, namespace }: { readonly name: string; readonly namespace: string },
): Promise<boolean> {
  const { group, plural: resource } = INFERENCE_SERVICES;
  const review: AccessReview = {
    metadata: { name: "" },
    spec: { resourceAttributes: { group, resource, verb, namespace, name } },
  };
  const answer = await client.create(ACCESS_REVIEWS, review);
  return answer.ok && answer.value.status?.allowed === true;
}
