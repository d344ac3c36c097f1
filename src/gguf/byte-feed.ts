/** Feeds a parser, written as a generator that asks for bytes, from chunks of any size; keeps only what is still needed. */

/** What the parser asks for next: so many bytes to look at, or so many to pass over. */
export type Ask = { readonly read: number } | { readonly skip: number };
export type Parser<R> = Generator<Ask, R, DataView>;

export type Fed<R> =
  | { readonly done: true; readonly value: R }
  | { readonly done: false; readonly needBytes: number };

const NOTHING = new DataView(new ArrayBuffer(0));

export class ByteFeed<R> {
  readonly #parser: Parser<R>;
  #asked: Ask | undefined;
  #kept = new Uint8Array(0);
  #result: { readonly value: R } | undefined;

  constructor(parser: Parser<R>) {
    this.#parser = parser;
  }

  /** Takes the next bytes; what comes after the end is ignored. */
  feed(chunk: Uint8Array): Fed<R> {
    if (this.#result !== undefined) return { done: true, value: this.#result.value };
    const bytes = this.#kept.length === 0 ? chunk : joined(this.#kept, chunk);
    let at = 0;
    let ask = this.#asked ?? this.#advance(NOTHING);
    while (ask !== undefined) {
      const left = bytes.length - at;
      if ("skip" in ask) {
        if (ask.skip > left) return this.#wait({ skip: ask.skip - left }, bytes, bytes.length);
        at += ask.skip;
        ask = this.#advance(NOTHING);
      } else {
        if (ask.read > left) return this.#wait(ask, bytes, at);
        const view = new DataView(bytes.buffer, bytes.byteOffset + at, ask.read);
        at += ask.read;
        ask = this.#advance(view);
      }
    }
    this.#kept = new Uint8Array(0);
    return this.feed(this.#kept);
  }

  #advance(view: DataView): Ask | undefined {
    const next = this.#parser.next(view);
    if (!next.done) return next.value;
    this.#result = { value: next.value };
    return undefined;
  }

  #wait(ask: Ask, bytes: Uint8Array, at: number): Fed<R> {
    this.#asked = ask;
    // A copy: callers reuse their buffers, and a Buffer's own slice would share them.
    this.#kept = new Uint8Array(bytes.subarray(at));
    return { done: false, needBytes: ("skip" in ask ? ask.skip : ask.read) - this.#kept.length };
  }
}

function joined(before: Uint8Array, after: Uint8Array): Uint8Array {
  const all = new Uint8Array(before.length + after.length);
  all.set(before);
  all.set(after, before.length);
  return all;
}
