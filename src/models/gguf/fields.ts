/** Reads single fields of GGUF from a byte feed: numbers, texts, values; refuses what no real model has. */
import { MetalbridgeError } from "../../api/errors.ts";
import { type Parser, skippedTexts } from "./byte-feed.ts";
import { ARRAY_TYPE, SCALAR_BYTES, STRING_TYPE } from "./tables.ts";
import type { GgufArray, GgufValue } from "./types.ts";

export const GGUF_LIMITS = {
  /** Long texts are skipped, so only the limit of the whole header counts: this is its default. */
  stringBytes: 128 << 20,
  arrayItems: 10_000_000,
  metadataEntries: 65_536,
  tensors: 65_536,
  dimensions: 16,
  arrayDepth: 4,
  keyBytes: 65_535,
  /** Longer texts are passed over. */
  keptTextBytes: 1024,
  keptItems: 4096,
} as const;

const decoder = new TextDecoder();

export function* readU32(): Parser<number> {
  return (yield { read: 4 }).getUint32(0, true);
}

/** A 64-bit count or length, refused above `most`. */
export function* readGgufCount(most: number, what: string): Parser<number> {
  const value = (yield { read: 8 }).getBigUint64(0, true);
  if (value > BigInt(most)) throw tooLarge(`${what} is ${value}, more than ${most}`);
  return Number(value);
}

/** A text of at most `most` bytes. */
export function* readGgufText(most: number, what: string): Parser<string> {
  const length = yield* readGgufCount(most, `the length of ${what}`);
  const view = yield { read: length };
  return decoder.decode(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
}

/** One metadata value; undefined when it is passed over, because it is long or `isKept` is false. */
export function* readGgufValue(type: number, key: string, isKept: boolean): Parser<GgufValue | undefined> {
  if (type === STRING_TYPE) return yield* readOrSkipText(key, isKept);
  if (type === ARRAY_TYPE) return yield* readArray(key, isKept, 1);
  const size = SCALAR_BYTES[type];
  if (size === undefined) throw malformed(`${key} has the value type ${type}, which is not known`);
  return scalar(type, yield { read: size });
}

function* readOrSkipText(key: string, isKept: boolean): Parser<string | undefined> {
  const length = yield* readGgufCount(GGUF_LIMITS.stringBytes, `the length of ${key}`);
  if (!isKept || length > GGUF_LIMITS.keptTextBytes) {
    yield { skip: length };
    return undefined;
  }
  const view = yield { read: length };
  return decoder.decode(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
}

function* readArray(key: string, isKept: boolean, depth: number): Parser<GgufArray> {
  if (depth > GGUF_LIMITS.arrayDepth)
    throw tooLarge(`${key} holds arrays in arrays, more than ${GGUF_LIMITS.arrayDepth} deep`);
  const type = yield* readU32();
  const count = yield* readGgufCount(GGUF_LIMITS.arrayItems, `the number of items of ${key}`);
  if (type === STRING_TYPE) {
    const { tooLong } = skippedTexts(yield { texts: count, most: GGUF_LIMITS.stringBytes });
    if (tooLong > 0) throw tooLarge(`a text in ${key} is ${tooLong}, more than ${GGUF_LIMITS.stringBytes}`);
    return { count };
  }
  if (type === ARRAY_TYPE) {
    if (count > GGUF_LIMITS.keptItems) throw tooLarge(`${key} holds ${count} arrays`);
    for (let index = 0; index < count; index++) yield* readArray(key, false, depth + 1);
    return { count };
  }
  const size = SCALAR_BYTES[type];
  if (size === undefined) throw malformed(`${key} holds items of type ${type}, which is not known`);
  if (!isKept || count > GGUF_LIMITS.keptItems) {
    yield { skip: count * size };
    return { count };
  }
  const items: (number | boolean)[] = [];
  const view = yield { read: count * size };
  for (let index = 0; index < count; index++) {
    items.push(scalar(type, new DataView(view.buffer, view.byteOffset + index * size, size)));
  }
  return { count, items };
}

function scalar(type: number, view: DataView): number | boolean {
  switch (type) {
    case 0:
      return view.getUint8(0);
    case 1:
      return view.getInt8(0);
    case 2:
      return view.getUint16(0, true);
    case 3:
      return view.getInt16(0, true);
    case 4:
      return view.getUint32(0, true);
    case 5:
      return view.getInt32(0, true);
    case 6:
      return view.getFloat32(0, true);
    case 7:
      return view.getUint8(0) !== 0;
    case 10:
      return Number(view.getBigUint64(0, true));
    case 11:
      return Number(view.getBigInt64(0, true));
    default:
      return view.getFloat64(0, true);
  }
}

export function tooLarge(message: string): MetalbridgeError {
  return new MetalbridgeError("GgufTooLarge", `the GGUF header is refused: ${message}`);
}

export function malformed(message: string): MetalbridgeError {
  return new MetalbridgeError("GgufMalformed", `the GGUF header is not valid: ${message}`);
}
