/** Inspects a remote source: its files, their sizes, and the GGUF headers. */
import { MetalbridgeError } from "../../api/errors.ts";
import type { ModelFormat } from "../../api/fields/shared.ts";
import { type GgufSummary, summarizeGguf } from "../../models/gguf/summary.ts";
import type { GgufHeader } from "../../models/gguf/types.ts";
import { safetensorsQuantization } from "../../models/mlx/quantization.ts";
import type { RemoteSource } from "../../models/source/kinds/registry.ts";
import { defaultFormat } from "../../models/source/parse.ts";
import type { FileSelector } from "../../models/source/select.ts";
import { requestText } from "../client.ts";
import { SourceFailure, transient } from "../failure.ts";
import type { Access, OpenSource } from "../remote-source.ts";
import { readMark, type SourceMark } from "./change-marker.ts";
import { readRemoteHeader } from "./gguf-header.ts";
import { openSource } from "./open.ts";
import { type RemoteFile, type ResolvedSource, resolveSource } from "./resolve.ts";

export interface InspectRequest extends Pick<Access, "credentials" | "revision"> {
  readonly source: RemoteSource;
  readonly selector: FileSelector;
  readonly signal: AbortSignal;
}

export interface InspectSettings extends Pick<Access, "rules" | "hfEndpoint" | "ollamaRegistry"> {
  /** Limit for the whole inspection. */
  readonly inspectMs: number;
  readonly maxHeaderBytes: number;
}

export interface Inspected {
  readonly format: ModelFormat;
  readonly files: readonly string[];
  /** True if the source holds several models and the quantization selected one. */
  readonly isChosen: boolean;
  readonly sizeBytes: number | undefined;
  /** Commit, manifest digest, or ETag of a web server's file. */
  readonly revision: string | undefined;
  /** Checksum of the weights, if they are one file. */
  readonly sha256: string | undefined;
  /** Checksum that the source states for the main file, which is what spec.sha256 of a Model is about. */
  readonly mainSha256?: string | undefined;
  readonly gguf: GgufSummary | undefined;
  /** Read from the config.json of safetensors. */
  readonly quantization?: string | undefined;
}

export type InspectSource = (request: InspectRequest) => Promise<Inspected>;
/** Sends only requests without content: lists and HEAD. */
export type MarkSource = (request: InspectRequest) => Promise<SourceMark>;

/** Rejects with SourceFailure, or with the signal's reason. */
export function createInspectSource(settings: InspectSettings): InspectSource {
  return (request) =>
    withinMs(settings.inspectMs, request.signal, (signal) => inspect({ ...request, signal }, settings));
}

/** Rejects with SourceFailure, or with the signal's reason. */
export function createMarkSource(settings: InspectSettings): MarkSource {
  return (request) =>
    withinMs(settings.inspectMs, request.signal, async (signal) => {
      const { opened, resolved } = await resolve({ ...request, signal }, settings);
      return readMark(opened, resolved, signal);
    });
}

/** Limits the total time of an inspection. Rejects with SourceFailure, or with the signal's reason. */
export async function withinMs<T>(
  limitMs: number,
  outer: AbortSignal,
  read: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const deadline = AbortSignal.timeout(limitMs);
  try {
    return await read(AbortSignal.any([outer, deadline]));
  } catch (error) {
    outer.throwIfAborted();
    if (error instanceof MetalbridgeError) throw new SourceFailure(error, false);
    // After the deadline, the error of the aborted connection is irrelevant.
    if (!deadline.aborted) throw error;
    const text = `the source did not answer within ${Math.ceil(limitMs / 1000)} s`;
    throw transient("SourceStalled", text, error);
  }
}

const MAX_LISTED = 512;
/** Typical ones have a few KiB, those with a list of excluded layers some hundred. */
const MAX_CONFIG_BYTES = 4 << 20;

async function resolve(request: InspectRequest, settings: InspectSettings) {
  const { source, signal } = request;
  const opened = openSource(source, { ...settings, ...request });
  const format = request.selector.format ?? defaultFormat(source);
  return { opened, resolved: await resolveSource(opened, { ...request.selector, format }, signal) };
}

async function inspect(request: InspectRequest, settings: InspectSettings): Promise<Inspected> {
  const { signal } = request;
  const { opened, resolved } = await resolve(request, settings);
  const [main] = resolved.files;
  const facts =
    resolved.format === "gguf"
      ? await readHeaders(opened, resolved, { ...settings, signal })
      : { sizeBytes: sumOf(resolved.files), etag: undefined, gguf: undefined };
  return {
    format: resolved.format,
    files: resolved.files.map(({ name }) => name).slice(0, MAX_LISTED),
    isChosen: resolved.isChosen,
    sizeBytes: facts.sizeBytes,
    revision: resolved.revision ?? facts.etag,
    sha256: resolved.files.length === 1 ? main?.sha256 : undefined,
    mainSha256: main?.sha256,
    gguf: facts.gguf,
    quantization:
      resolved.format === "safetensors" ? await readQuantization(opened, resolved, signal) : undefined,
  };
}

/** Undefined also if the server refuses the file: its content is no condition for serving the model. */
async function readQuantization(
  { authorize, judge, rules }: OpenSource,
  { files }: ResolvedSource,
  signal: AbortSignal,
): Promise<string | undefined> {
  const config = files.find(({ name }) => name === "config.json");
  if (config === undefined) return undefined;
  try {
    const limits = { maxBytes: MAX_CONFIG_BYTES };
    const { text } = await requestText(config.url, { authorize, judge, signal }, rules, limits);
    return safetensorsQuantization(text);
  } catch (error) {
    if (error instanceof SourceFailure && !error.isTransient) return undefined;
    throw error;
  }
}

/** Reads the header of every part. The first describes the model, and all parts determine its size. The projector counts only for the size. */
async function readHeaders(
  source: OpenSource,
  { files, projector }: ResolvedSource,
  limits: { readonly signal: AbortSignal; readonly maxHeaderBytes: number },
) {
  const headers: GgufHeader[] = [];
  const sized: Pick<RemoteFile, "sizeBytes">[] = [];
  let etag: string | undefined;
  for (const file of files) {
    const read = await readRemoteHeader(source, file.url, limits);
    etag ??= read.etag;
    headers.push(read.header);
    sized.push({ sizeBytes: read.sizeBytes ?? file.sizeBytes });
  }
  const [first, ...others] = headers;
  const summary = first === undefined ? undefined : summarizeGguf(first, ...others);
  const gguf = summary && { ...summary, weightsBytes: summary.weightsBytes ?? sumOf(sized) };
  if (projector !== undefined) {
    const { header, sizeBytes } = await readRemoteHeader(source, projector.url, limits);
    sized.push({ sizeBytes: sizeBytes ?? header.dataOffset + header.dataBytes });
  }
  return { sizeBytes: sumOf(sized), etag, gguf };
}

function sumOf(files: readonly Pick<RemoteFile, "sizeBytes">[]): number | undefined {
  let sum = 0;
  for (const { sizeBytes } of files) {
    if (sizeBytes === undefined) return undefined;
    sum += sizeBytes;
  }
  return sum;
}
