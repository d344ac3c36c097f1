/** The GGUF header parser: incremental, bounded in time and memory whatever the bytes. */

import { MetalbridgeError } from "../../api/errors.ts";
import { truncate } from "../../util/text.ts";
import { ByteFeed, type Parser, type ReadRequest, skippedTexts } from "./byte-feed.ts";
import {
  GGUF_LIMITS,
  malformed,
  readGgufCount,
  readGgufText,
  readGgufValue,
  readU32,
  tooLarge,
} from "./fields.ts";
import { TENSOR_BLOCKS } from "./tables.ts";
import type { BlockTensors, GgufHeader, GgufProgress, GgufValue } from "./types.ts";

export interface GgufReader {
  /** Takes the file's next bytes; bytes behind the header are ignored. Throws MetalbridgeError for what is no GGUF. */
  readonly feed: (chunk: Uint8Array) => GgufProgress;
  /** To be thrown when the file ended and `feed` is not done. */
  readonly cutOff: () => MetalbridgeError;
}

/** A reader for one file, fed from its first byte on. */
export function createGgufReader(): GgufReader {
  const feed = new ByteFeed(header());
  let seen = 0;
  return {
    feed: (chunk) => {
      seen += chunk.length;
      const fed = feed.feed(chunk);
      return fed.done ? { done: true, header: fed.value } : fed;
    },
    cutOff: () =>
      seen === 0
        ? new MetalbridgeError("SourceEmpty", "the file has zero bytes")
        : new MetalbridgeError("GgufTruncated", `the file ends after ${seen} bytes, inside the GGUF header`),
  };
}

const DEFAULT_ALIGNMENT = 32;
/** Whole headers of real models stay below 50 MiB. */
const MAX_METADATA_ITEMS = 20_000_000;
/** Numbers and short pieces of text kept in all; what comes after is passed over. */
const MAX_KEPT = 65_536;

function* header(): Parser<GgufHeader> {
  const version = checkFirstBytes(yield { read: 8 });
  const tensorCount = yield* readGgufCount(GGUF_LIMITS.tensors, "the number of tensors");
  const entryCount = yield* readGgufCount(GGUF_LIMITS.metadataEntries, "the number of metadata entries");
  const metadata = new Map<string, GgufValue>();
  let at = 24 + (yield* readMetadata(entryCount, metadata));
  const tensors = yield* readTensors(tensorCount);
  at += tensors.headerBytes;
  const alignment = alignmentOf(metadata);
  return {
    version,
    tensorCount,
    metadata,
    dataOffset: Math.ceil(at / alignment) * alignment,
    dataBytes: tensors.dataBytes,
    weightsBytes: tensors.weightsBytes,
    parameterCount: tensors.parameterCount,
    blocks: tensors.blocks,
    vocabularySize: tensors.vocabularySize,
    hasClassifier: tensors.hasClassifier,
  };
}

/** Fills `metadata` and returns the bytes that the entries took. */
function* readMetadata(count: number, metadata: Map<string, GgufValue>): Parser<number> {
  const measure = { bytes: 0 };
  let items = 0;
  let kept = 0;
  for (let index = 0; index < count; index++) {
    const key = yield* measured(readGgufText(GGUF_LIMITS.keyBytes, "a metadata key"), measure);
    const type = yield* measured(readU32(), measure);
    const value = yield* measured(readGgufValue(type, key, isKept(key) && kept < MAX_KEPT), measure);
    if (metadata.has(key)) throw malformed(`${JSON.stringify(truncate(key, 80))} occurs twice`);
    if (value !== undefined && (isKept(key) || isArray(value))) metadata.set(key, value);
    items += isArray(value) ? value.count : 1;
    kept += weightOf(value);
    if (items > MAX_METADATA_ITEMS)
      throw tooLarge(`its metadata holds more than ${MAX_METADATA_ITEMS} items`);
  }
  return measure.bytes;
}

interface Tensors {
  readonly headerBytes: number;
  readonly dataBytes: number;
  readonly weightsBytes: number | undefined;
  readonly parameterCount: number;
  readonly blocks: ReadonlyMap<string, BlockTensors>;
  readonly vocabularySize: number | undefined;
  readonly hasClassifier: boolean;
}

function* readTensors(count: number): Parser<Tensors> {
  const measure = { bytes: 0 };
  const sum = { dataBytes: 0, weightsBytes: 0, parameterCount: 0, isKnown: true };
  let vocabularySize: number | undefined;
  let hasClassifier = false;
  const blocks = new Map<string, { layers: number[]; rows: number }>();
  for (let index = 0; index < count; index++) {
    const tensor = yield* measured(readTensor(), measure);
    sum.parameterCount += tensor.elements;
    if (tensor.sizeBytes === undefined) sum.isKnown = false;
    sum.weightsBytes += tensor.sizeBytes ?? 0;
    sum.dataBytes = Math.max(sum.dataBytes, tensor.offset + (tensor.sizeBytes ?? 0));
    if (tensor.name === "token_embd.weight") vocabularySize = tensor.rows;
    else noteBlock(blocks, tensor);
    hasClassifier ||= /^cls\.(output\.)?weight$/.test(tensor.name);
    if (!Number.isSafeInteger(sum.weightsBytes) || !Number.isSafeInteger(sum.dataBytes))
      throw tooLarge("the sum of its tensors");
  }
  const { dataBytes, parameterCount } = sum;
  const weightsBytes = sum.isKnown ? sum.weightsBytes : undefined;
  return {
    headerBytes: measure.bytes,
    dataBytes,
    weightsBytes,
    parameterCount,
    blocks,
    vocabularySize,
    hasClassifier,
  };
}

function noteBlock(
  blocks: Map<string, { layers: number[]; rows: number }>,
  { name, rows }: { readonly name: string; readonly rows: number },
): void {
  const [, layer, part = ""] = /^blk\.(\d{1,4})\.(.{1,64})$/.exec(name) ?? [];
  if (layer === undefined) return;
  const known = blocks.get(part);
  if (known === undefined) blocks.set(part, { layers: [Number(layer)], rows });
  else {
    known.layers.push(Number(layer));
    known.rows = Math.max(known.rows, rows);
  }
}

function* readTensor() {
  const name = yield* readGgufText(GGUF_LIMITS.keyBytes, "a tensor's name");
  const rank = yield* readU32();
  if (rank > GGUF_LIMITS.dimensions) throw tooLarge(`a tensor has ${rank} dimensions`);
  let elements = 1;
  let rows = 1;
  let columns = 1;
  for (let index = 0; index < rank; index++) {
    const size = yield* readGgufCount(Number.MAX_SAFE_INTEGER, "a dimension of a tensor");
    elements *= size;
    if (index === 0) columns = size;
    if (index === 1) rows = size;
  }
  if (!Number.isSafeInteger(elements))
    throw tooLarge(`tensor ${JSON.stringify(truncate(name, 80))} has ${elements} elements`);
  const block = TENSOR_BLOCKS[yield* readU32()];
  const offset = yield* readGgufCount(Number.MAX_SAFE_INTEGER, "a tensor's offset");
  if (block !== undefined && columns % block[0] !== 0) {
    throw malformed(
      `the rows of tensor ${JSON.stringify(truncate(name, 80))} are no multiple of its block size ${block[0]}`,
    );
  }
  const sizeBytes = block === undefined ? undefined : (elements / block[0]) * block[1];
  return { name, elements, rows, offset, sizeBytes };
}

/** Counts the bytes that a part of the parser takes. */
function* measured<R>(parser: Parser<R>, measure: { bytes: number }): Parser<R> {
  let step = parser.next();
  while (!step.done) {
    const data = yield step.value;
    measure.bytes += bytesOf(step.value, data);
    step = parser.next(data);
  }
  return step.value;
}

function bytesOf(ask: ReadRequest, data: DataView): number {
  if ("texts" in ask) return skippedTexts(data).bytes;
  return "skip" in ask ? ask.skip : ask.read;
}

function weightOf(value: GgufValue | undefined): number {
  if (typeof value === "string") return 1 + value.length / 8;
  return isArray(value) ? 1 + (value.items?.length ?? 0) : 1;
}

function alignmentOf(metadata: ReadonlyMap<string, GgufValue>): number {
  const value = metadata.get("general.alignment");
  if (value === undefined) return DEFAULT_ALIGNMENT;
  const isPower =
    typeof value === "number" && value > 0 && value <= 1 << 20 && Number.isInteger(Math.log2(value));
  if (!isPower) throw malformed("general.alignment is no power of two");
  return value;
}

function isKept(key: string): boolean {
  return !key.startsWith("tokenizer.") || key === "tokenizer.ggml.model" || key === "tokenizer.ggml.pre";
}

function isArray(value: GgufValue | undefined): value is Extract<GgufValue, { count: number }> {
  return typeof value === "object";
}

const MAGIC = "GGUF";

/** Throws unless the file begins like a little-endian GGUF of a known version. Takes the first eight bytes. */
function checkFirstBytes(view: DataView): number {
  const head = latin(view);
  if (!head.startsWith(MAGIC)) throw notGguf(head);
  const version = view.getUint32(4, true);
  if (version === 2 || version === 3) return version;
  if (version !== 0 && (version & 0xffff) === 0) {
    throw new MetalbridgeError(
      "GgufBigEndian",
      `the GGUF file is big-endian (version ${view.getUint32(4, false)})`,
    );
  }
  throw new MetalbridgeError(
    "GgufVersion",
    `the GGUF file has version ${version}; versions 2 and 3 are read`,
  );
}

function notGguf(head: string): MetalbridgeError {
  const trimmed = head.replace(/^(\u00ef\u00bb\u00bf)?\s*/, "");
  if (trimmed.startsWith("<"))
    return new MetalbridgeError("SourceIsNotAModel", "it is a web page or XML, not a GGUF file");
  if (trimmed.startsWith("{") || trimmed.startsWith("[")) {
    return new MetalbridgeError("SourceIsNotAModel", "it is JSON, not a GGUF file");
  }
  if (head.startsWith("version ")) {
    return new MetalbridgeError("SourceIsNotAModel", "it is a Git LFS pointer, not the file itself", {
      summary: "use the download address of the file (…/resolve/… on Hugging Face), or run git lfs pull",
    });
  }
  if (head.startsWith("PK"))
    return new MetalbridgeError("GgufBadMagic", "it is a zip archive or PyTorch file, not a GGUF file");
  // Not quoted: messages go into statuses, and the bytes may be of a service that is not meant to be read.
  return new MetalbridgeError("GgufBadMagic", `it does not begin with "${MAGIC}", as GGUF files do`);
}

function latin(view: DataView): string {
  let text = "";
  for (let index = 0; index < view.byteLength; index++) text += String.fromCharCode(view.getUint8(index));
  return text;
}
