/** Looks at a remote source: which files it means, how large they are, and what the GGUF header says. The effect port of the Model reconciler. */
import type { ModelFormat } from "../../../src/api/fields/shared.ts";
import type { ModelSpec } from "../../../src/api/model.ts";
import { MetalbridgeError } from "../../../src/errors.ts";
import { type GgufSummary, summarizeGguf } from "../../../src/gguf/summary.ts";
import type { GgufHeader } from "../../../src/gguf/types.ts";
import { chooseGgufFiles } from "../../../src/source/choose-file.ts";
import { defaultFormat, fileNameOf, type Source } from "../../../src/source/source.ts";
import { splitFileNames } from "../../../src/source/split-files.ts";
import type { RemoteConfig } from "./exchange.ts";
import { LookFailure, lasting, passing } from "./failure.ts";
import { readRemoteHeader } from "./header-by-range.ts";
import { type Repository, readRepository, repositoryFileUrl } from "./hugging-face.ts";

export interface LookRequest {
  readonly source: Extract<Source, { kind: "http" | "hf" }>;
  readonly spec: Pick<ModelSpec, "format" | "files" | "mmproj" | "quantization">;
  readonly secretHeaders: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/** What a source turned out to be. */
export interface Found {
  readonly format: ModelFormat | undefined;
  readonly files: readonly string[];
  readonly sizeBytes: number | undefined;
  readonly revision: string | undefined;
  readonly sha256: string | undefined;
  readonly gguf: GgufSummary | undefined;
}

export type LookAtSource = (request: LookRequest) => Promise<Found>;

/** The real port: HTTP within the bounds of `config`. Rejects with LookFailure. */
export function createLook(config: RemoteConfig): LookAtSource {
  return async (request) => {
    const deadline = AbortSignal.timeout(config.lookMs);
    const signal = AbortSignal.any([request.signal, deadline]);
    try {
      const bounded = { ...request, signal };
      return request.source.kind === "hf"
        ? await lookAtRepository(bounded, request.source, config)
        : await lookAtAddress(bounded, new URL(request.source.url), config);
    } catch (error) {
      request.signal.throwIfAborted();
      if (error instanceof MetalbridgeError) throw new LookFailure(error, false);
      // Whatever an aborted connection reports, the deadline is why.
      if (deadline.aborted) {
        throw passing(
          "SourceStalled",
          `the header did not arrive within ${Math.ceil(config.lookMs / 1000)} s`,
          error,
        );
      }
      throw error;
    }
  };
}

interface Part {
  readonly name: string;
  readonly url: URL;
  readonly sizeBytes?: number | undefined;
}

async function lookAtAddress(request: LookRequest, url: URL, config: RemoteConfig): Promise<Found> {
  const format = request.spec.format ?? defaultFormat(request.source) ?? "gguf";
  const named = fileNameOf(request.source) ?? "model.gguf";
  const files = splitFileNames(named);
  if (format !== "gguf") {
    return {
      format,
      files: [named],
      sizeBytes: undefined,
      revision: undefined,
      sha256: undefined,
      gguf: undefined,
    };
  }
  const parts = files.map((name) => ({ name, url: files.length === 1 ? url : sibling(url, name) }));
  const projector = request.spec.mmproj === undefined ? undefined : sibling(url, request.spec.mmproj);
  return { format, files, sha256: undefined, ...(await readAll(parts, projector, request, config)) };
}

function sibling(url: URL, name: string): URL {
  const other = new URL(url);
  other.pathname = other.pathname.replace(/[^/]*$/, name.split("/").map(encodeURIComponent).join("/"));
  return other;
}

async function lookAtRepository(
  request: LookRequest,
  source: Extract<Source, { kind: "hf" }>,
  config: RemoteConfig,
): Promise<Found> {
  const { repo } = source;
  const asked = request.spec.files ?? (source.file === undefined ? [] : [source.file]);
  const repository = await readRepository(repo, source.revision, request, config);
  if (repository === undefined && asked.length === 0) {
    throw lasting("SourceNotFound", `${repo} at ${source.revision} does not exist at ${config.hfEndpoint}`);
  }
  const format = formatOf(request, repository);
  const revision = repository?.revision ?? source.revision;
  if (format !== "gguf") return wholeRepository(format, repository, asked, revision);
  const { quantization } = request.spec;
  const available = repository === undefined ? asked.flatMap(splitFileNames) : [...repository.files.keys()];
  const files = chooseGgufFiles({ available, repo, asked, quantization });
  const parts = files.map((name) => ({
    name,
    url: repositoryFileUrl(repo, revision, name, config),
    sizeBytes: repository?.files.get(name)?.sizeBytes,
  }));
  const { mmproj } = request.spec;
  const projector = mmproj === undefined ? undefined : repositoryFileUrl(repo, revision, mmproj, config);
  const read = await readAll(parts, projector, request, config);
  const sha256 = files.length === 1 ? repository?.files.get(files[0] ?? "")?.sha256 : undefined;
  return { format, files, ...read, revision: repository?.revision ?? read.revision, sha256 };
}

function formatOf({ spec, source }: LookRequest, repository: Repository | undefined): ModelFormat {
  const named = spec.format ?? defaultFormat(source);
  if (named !== undefined) return named;
  const names = [...(repository?.files.keys() ?? [])];
  return !names.some((name) => name.endsWith(".gguf")) && names.some((name) => name.endsWith(".safetensors"))
    ? "safetensors"
    : "gguf";
}

function wholeRepository(
  format: ModelFormat,
  repository: Repository | undefined,
  asked: readonly string[],
  revision: string,
): Found {
  const files =
    asked.length > 0 ? asked : [...(repository?.files.keys() ?? [])].filter((name) => !name.startsWith("."));
  const sizes = files.map((name) => repository?.files.get(name)?.sizeBytes);
  return {
    format,
    files: files.slice(0, MAX_LISTED),
    sizeBytes: sumOf(sizes),
    revision,
    sha256: undefined,
    gguf: undefined,
  };
}

const MAX_LISTED = 512;

/** The model's parts and its projector: the size is of all files together, the weights are the model's alone. */
async function readAll(
  parts: readonly Part[],
  projector: URL | undefined,
  request: LookRequest,
  config: RemoteConfig,
) {
  const read = await readParts(parts, request, config);
  if (projector === undefined) return read;
  const { header, sizeBytes } = await readRemoteHeader(projector, request, config);
  return { ...read, sizeBytes: sumOf([read.sizeBytes, sizeBytes ?? header.dataOffset + header.dataBytes]) };
}

/** Reads the header of every part; the first tells what the model is, all together how large it is. */
async function readParts(parts: readonly Part[], request: LookRequest, config: RemoteConfig) {
  let revision: string | undefined;
  const sizes: (number | undefined)[] = [];
  const headers: GgufHeader[] = [];
  for (const part of parts) {
    const { header, sizeBytes, etag } = await readRemoteHeader(part.url, request, config);
    revision ??= etag;
    sizes.push(sizeBytes ?? part.sizeBytes);
    headers.push(header);
  }
  const sizeBytes = sumOf(sizes);
  const [first, ...others] = headers;
  if (first === undefined) return { sizeBytes, revision, gguf: undefined };
  const gguf = summarizeGguf(first, ...others);
  return { sizeBytes, revision, gguf: { ...gguf, weightsBytes: gguf.weightsBytes ?? sizeBytes } };
}

function sumOf(values: readonly (number | undefined)[]): number | undefined {
  return values.reduce<number | undefined>(
    (sum, value) => (sum === undefined || value === undefined ? undefined : sum + value),
    0,
  );
}
