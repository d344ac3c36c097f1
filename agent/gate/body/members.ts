/**
 * Finds the top-level members of a JSON object while its bytes arrive. Each piece is scanned once, and only the positions of
 * the selected members are stored. Parsing is strict at this level, so that no other parser can see other members; deeper
 * levels are only scanned for brackets and strings.
 */
import { parseJson } from "../../../src/util/parse-json.ts";

/** The supported APIs define a few dozen members. */
export const MAX_MEMBERS = 256;
/** Maximum length of a member's name and of a number: longer ones exist only to keep the process busy. */
export const MAX_TOKEN_BYTES = 1_024;
export const MAX_DEPTH = 500;

export interface Member {
  /** The key as Go's parser compares it: in lower case, and with the long s as s. */
  readonly key: string;
  /** The key as the client spelled it, which other parsers compare. */
  readonly spelled: string;
  /** Start of the value. */
  readonly from: number;
  /** End of the value, exclusive. */
  readonly to: number;
}

type At =
  | "object"
  | "first key"
  | "key"
  | "in key"
  | "colon"
  | "value"
  | "string"
  | "scalar"
  | "nested"
  | "nested string"
  | "comma"
  | "end";

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
/** The states in which spaces are allowed, and the bytes that may follow them. */
const NEXT: Readonly<Partial<Record<At, ReadonlyMap<number, At>>>> = {
  object: new Map([[OPEN_OBJECT, "first key"]]),
  "first key": new Map([
    [QUOTE, "in key"],
    [CLOSE_OBJECT, "end"],
  ]),
  key: new Map([[QUOTE, "in key"]]),
  colon: new Map([[COLON, "value"]]),
  value: new Map(),
  comma: new Map([
    [COMMA, "key"],
    [CLOSE_OBJECT, "end"],
  ]),
  end: new Map(),
};

export class MemberScanner {
  readonly members: Member[] = [];
  /** The number of all members, selected or not. */
  count = 0;
  /** The position after the opening brace. */
  opensAt = 0;
  readonly #isSelected: (key: string) => boolean;
  readonly #closers = new Uint8Array(MAX_DEPTH);
  #depth = 0;
  #at: At = "object";
  /** The number of bytes before the current piece. */
  #before = 0;
  #isEscaped = false;
  #token: Buffer = Buffer.alloc(0);
  #spelled = "";
  #from = 0;
  #problem: string | undefined;

  /** `isSelected` gets a key as Go's parser compares it. */
  constructor(isSelected: (key: string) => boolean) {
    this.#isSelected = isSelected;
  }

  /** Returns the problem as soon as it is certain that the bytes are not an accepted object. */
  push(piece: Buffer): string | undefined {
    let index = 0;
    while (index < piece.length && this.#problem === undefined) index = this.#step(piece, index);
    this.#before += piece.length;
    return this.#problem;
  }

  /** Returns the problem of the complete text, after the last piece. */
  end(): string | undefined {
    if (this.#problem !== undefined || this.#at === "end") return this.#problem;
    return this.#unexpected(this.#before);
  }

  #step(piece: Buffer, index: number): number {
    if (NEXT[this.#at] !== undefined) return this.#between(piece, index);
    if (this.#at === "nested") return this.#nested(piece, index);
    if (this.#at === "scalar") return this.#scalar(piece, index);
    const end = this.#stringEnd(piece, index);
    if (this.#at === "in key") this.#keep(piece, index, end ?? piece.length);
    if (end === undefined || this.#problem !== undefined) return piece.length;
    if (this.#at === "in key") this.#key(end);
    else if (this.#at === "nested string") this.#at = "nested";
    else this.#value(end);
    return end;
  }

  #between(piece: Buffer, from: number): number {
    let index = from;
    while (isSpace(piece[index])) index += 1;
    const byte = piece[index];
    if (byte !== undefined) this.#structure(byte, this.#before + index);
    // The first character of a number, true, false or null is part of the value.
    return this.#at === "scalar" ? index : index + 1;
  }

  #structure(byte: number, place: number): void {
    if (this.#at === "object") this.opensAt = place + 1;
    const next = NEXT[this.#at]?.get(byte);
    if (this.#at === "value") this.#open(byte, place);
    else if (next === undefined) this.#problem = this.#unexpected(place);
    else if (next === "in key") this.#openKey();
    else this.#at = next;
  }

  #unexpected(place: number): string {
    if (this.#at === "object") return "it does not start with {";
    if (this.#at === "end") return "something follows it";
    return `no ${this.#at === "comma" ? "comma" : "member"} at byte ${place}`;
  }

  #openKey(): void {
    this.count += 1;
    if (this.count > MAX_MEMBERS) this.#problem = `it has more than ${MAX_MEMBERS} members`;
    this.#token = Buffer.from('"');
    this.#at = "in key";
  }

  #key(end: number): void {
    const key = parseJson(this.#token.toString("utf8"));
    if (typeof key === "string") this.#spelled = key;
    else this.#problem = this.#noMember(this.#before + end);
    this.#at = "colon";
  }

  #open(byte: number, place: number): void {
    this.#from = place;
    this.#token = Buffer.alloc(0);
    if (byte === QUOTE) this.#at = "string";
    else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      this.#push(byte);
      this.#at = "nested";
    } else if (isScalarByte(byte)) this.#at = "scalar";
    else this.#problem = this.#noMember(place);
  }

  #value(end: number): void {
    const key = foldKey(this.#spelled);
    if (this.#isSelected(key))
      this.members.push({ key, spelled: this.#spelled, from: this.#from, to: this.#before + end });
    this.#at = "comma";
  }

  #scalar(piece: Buffer, from: number): number {
    let index = from;
    while (isScalarByte(piece[index])) index += 1;
    this.#keep(piece, from, index);
    if (index === piece.length || this.#problem !== undefined) return piece.length;
    if (parseJson(this.#token.toString("latin1")) === undefined)
      this.#problem = this.#noMember(this.#before + index);
    this.#value(index);
    return index;
  }

  #nested(piece: Buffer, from: number): number {
    for (let index = from; index < piece.length; index += 1) {
      const byte = piece[index];
      if (byte === QUOTE) {
        this.#at = "nested string";
        return index + 1;
      }
      if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) this.#push(byte);
      else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) this.#pop(byte, index);
      if (this.#depth === 0 || this.#problem !== undefined) {
        if (this.#problem === undefined) this.#value(index + 1);
        return index + 1;
      }
    }
    return piece.length;
  }

  #push(byte: number): void {
    if (this.#depth === MAX_DEPTH) this.#problem = `it is nested deeper than ${MAX_DEPTH}`;
    this.#closers[this.#depth] = byte === OPEN_OBJECT ? CLOSE_OBJECT : CLOSE_ARRAY;
    this.#depth += 1;
  }

  #pop(byte: number, index: number): void {
    this.#depth -= 1;
    if (this.#closers[this.#depth] !== byte) this.#problem = this.#noMember(this.#before + index);
  }

  /** The position after the closing quote; undefined if the quote is not in this piece. */
  #stringEnd(piece: Buffer, from: number): number | undefined {
    let isEscaped = this.#isEscaped;
    for (let index = from; index < piece.length; index += 1) {
      const byte = piece[index];
      if (isEscaped) isEscaped = false;
      else if (byte === BACKSLASH) isEscaped = true;
      else if (byte === QUOTE) {
        this.#isEscaped = false;
        return index + 1;
      }
    }
    this.#isEscaped = isEscaped;
    return undefined;
  }

  #keep(piece: Buffer, from: number, to: number): void {
    if (this.#token.length + to - from > MAX_TOKEN_BYTES)
      this.#problem = `a name or a number is longer than ${MAX_TOKEN_BYTES} bytes`;
    else this.#token = Buffer.concat([this.#token, piece.subarray(from, to)]);
  }

  #noMember(place: number): string {
    return `no member at byte ${place}`;
  }
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/** The characters of numbers, true, false and null: letters, digits, signs and the decimal point. */
function isScalarByte(byte = 0): boolean {
  return (
    (byte >= 0x30 && byte <= 0x39) ||
    (byte >= 0x61 && byte <= 0x7a) ||
    byte === 0x2b ||
    byte === 0x2d ||
    byte === 0x2e ||
    byte === 0x45
  );
}

function foldKey(key: string): string {
  return key.toLowerCase().replaceAll("ſ", "s");
}
