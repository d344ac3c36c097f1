/** Feeds a parser, written as a generator that asks for bytes, from chunks of any size; keeps only what is still needed. */

/** The next request of the parser: a number of bytes to read, bytes to skip, or strings to skip. */
export type ReadRequest = { readonly read: number } | { readonly skip: number } | SkipTextsRequest;

/**
 * Texts with their length before them, as vocabularies have by the hundred thousand: asked for one by one they would
 * take most of the time of reading a header. The result is `skippedTexts`.
 */
export interface SkipTextsRequest {
  readonly texts: number;
  /** A longer one ends the passing over. */
  readonly most: number;
  /** The position over all chunks. */
  readonly passed?: { readonly bytes: number; readonly inText: number };
}

export type Parser<R> = Generator<ReadRequest, R, DataView>;

export type FeedResult<R> =
  | { readonly done: true; readonly value: R }
  | { readonly done: false; readonly needBytes: number };

const NOTHING = new DataView(new ArrayBuffer(0));

export class ByteFeed<R> {
  readonly #parser: Parser<R>;
  #asked: ReadRequest | undefined;
  #kept = new Uint8Array(0);
  #result: { readonly value: R } | undefined;

  constructor(parser: Parser<R>) {
    this.#parser = parser;
  }

  /** Takes the next bytes; what comes after the end is ignored. */
  feed(chunk: Uint8Array): FeedResult<R> {
    if (this.#result !== undefined) return { done: true, value: this.#result.value };
    const bytes = this.#kept.length === 0 ? chunk : joined(this.#kept, chunk);
    let at = 0;
    let ask = this.#asked ?? this.#advance(NOTHING);
    while (ask !== undefined) {
      const taken = take(ask, bytes, at);
      at = taken.at;
      if ("left" in taken) return this.#wait(taken.left, bytes, at);
      ask = this.#advance(taken.data);
    }
    this.#kept = new Uint8Array(0);
    return this.feed(this.#kept);
  }

  #advance(view: DataView): ReadRequest | undefined {
    const next = this.#parser.next(view);
    if (!next.done) return next.value;
    this.#result = { value: next.value };
    return undefined;
  }

  #wait(ask: ReadRequest, bytes: Uint8Array, at: number): FeedResult<R> {
    this.#asked = ask;
    // A copy: callers reuse their buffers, and a Buffer's own slice would share them.
    this.#kept = new Uint8Array(bytes.subarray(at));
    return { done: false, needBytes: leastBytes(ask) - this.#kept.length };
  }
}

/** Bytes that the texts took, and the length of one that is too long, else 0. */
export function skippedTexts(data: DataView): { readonly bytes: number; readonly tooLong: number } {
  return { bytes: data.getFloat64(0), tooLong: data.getFloat64(LENGTH_BYTES) };
}

const LENGTH_BYTES = 8;

/** The new position, and the data or the rest of the request, which the next chunk must satisfy. */
type Taken =
  | { readonly at: number; readonly data: DataView }
  | { readonly at: number; readonly left: ReadRequest };

function take(ask: ReadRequest, bytes: Uint8Array, at: number): Taken {
  if ("texts" in ask) return passTexts(ask, bytes, at);
  const left = bytes.length - at;
  if ("skip" in ask) {
    if (ask.skip > left) return { at: bytes.length, left: { skip: ask.skip - left } };
    return { at: at + ask.skip, data: NOTHING };
  }
  if (ask.read > left) return { at, left: ask };
  return { at: at + ask.read, data: new DataView(bytes.buffer, bytes.byteOffset + at, ask.read) };
}

function passTexts(ask: SkipTextsRequest, bytes: Uint8Array, from: number): Taken {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let { bytes: passed, inText } = ask.passed ?? { bytes: 0, inText: 0 };
  let at = from;
  for (let texts = ask.texts; ; texts--) {
    const left = bytes.length - at;
    if (inText > left) {
      const rest = { bytes: passed, inText: inText - left };
      return { at: bytes.length, left: { ...ask, texts, passed: rest } };
    }
    at += inText;
    inText = 0;
    if (texts === 0) return { at, data: skippedData(passed, 0) };
    if (bytes.length - at < LENGTH_BYTES)
      return { at, left: { ...ask, texts, passed: { bytes: passed, inText } } };
    inText = view.getUint32(at, true) + view.getUint32(at + 4, true) * 2 ** 32;
    if (inText > ask.most) return { at, data: skippedData(passed, inText) };
    at += LENGTH_BYTES;
    passed += LENGTH_BYTES + inText;
  }
}

function skippedData(bytes: number, tooLong: number): DataView {
  const data = new DataView(new ArrayBuffer(2 * LENGTH_BYTES));
  data.setFloat64(0, bytes);
  data.setFloat64(LENGTH_BYTES, tooLong);
  return data;
}

function leastBytes(ask: ReadRequest): number {
  if ("texts" in ask) return (ask.passed?.inText ?? 0) + ask.texts * LENGTH_BYTES;
  return "skip" in ask ? ask.skip : ask.read;
}

function joined(before: Uint8Array, after: Uint8Array): Uint8Array {
  const all = new Uint8Array(before.length + after.length);
  all.set(before);
  all.set(after, before.length);
  return all;
}
