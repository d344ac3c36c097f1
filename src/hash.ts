/** SHA-256 in plain arithmetic, for names and revisions: src may not use node:crypto, and Web Crypto is asynchronous. */

const ROUND_CONSTANTS = fractionBits(64, 1 / 3);
const INITIAL_STATE = fractionBits(8, 1 / 2);

/** Hex SHA-256 of a text in UTF-8. For small inputs; files are hashed by the store. */
export function sha256Hex(text: string): string {
  const blocks = padded(new TextEncoder().encode(text));
  const state = Uint32Array.from(INITIAL_STATE);
  const schedule = new Uint32Array(64);
  for (let offset = 0; offset < blocks.byteLength; offset += 64) {
    fillSchedule(schedule, new DataView(blocks.buffer, offset, 64));
    compress(state, schedule);
  }
  return [...state].map((word) => word.toString(16).padStart(8, "0")).join("");
}

/** A short, stable digest for names: the first `length` hex digits of SHA-256. */
export function hash(text: string, length = 10): string {
  return sha256Hex(text).slice(0, length);
}

/** JSON with object keys sorted and undefined left out, so that equal values have equal texts. */
export function canonicalJson(value: unknown): string {
  return (
    JSON.stringify(value, (_key, inner: unknown) => (isRecord(inner) ? sortedKeys(inner) : inner)) ?? "null"
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function sortedKeys(record: Record<string, unknown>): Record<string, unknown> {
  const entries = Object.entries(record).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)));
}

/** The message, 0x80, zeros, and the bit length in the last eight bytes. */
function padded(message: Uint8Array): Uint8Array<ArrayBuffer> {
  const total = Math.ceil((message.length + 9) / 64) * 64;
  const blocks = new Uint8Array(total);
  blocks.set(message);
  blocks[message.length] = 0x80;
  new DataView(blocks.buffer).setBigUint64(total - 8, BigInt(message.length) * 8n);
  return blocks;
}

function fillSchedule(schedule: Uint32Array, block: DataView): void {
  for (let i = 0; i < 16; i++) schedule[i] = block.getUint32(i * 4);
  for (let i = 16; i < 64; i++) {
    const w15 = word(schedule, i - 15);
    const w2 = word(schedule, i - 2);
    const s0 = rotate(w15, 7) ^ rotate(w15, 18) ^ (w15 >>> 3);
    const s1 = rotate(w2, 17) ^ rotate(w2, 19) ^ (w2 >>> 10);
    schedule[i] = word(schedule, i - 16) + s0 + word(schedule, i - 7) + s1;
  }
}

function compress(state: Uint32Array, schedule: Uint32Array): void {
  let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state;
  for (let i = 0; i < 64; i++) {
    const s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    const choose = (e & f) ^ (~e & g);
    const t1 = (h + s1 + choose + word(ROUND_CONSTANTS, i) + word(schedule, i)) >>> 0;
    const s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    const majority = (a & b) ^ (a & c) ^ (b & c);
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) >>> 0, c, b, a, (t1 + s0 + majority) >>> 0];
  }
  [a, b, c, d, e, f, g, h].forEach((value, i) => {
    state[i] = word(state, i) + value;
  });
}

function word(words: Uint32Array, index: number): number {
  return words[index] ?? 0;
}

function rotate(value: number, bits: number): number {
  return (value >>> bits) | (value << (32 - bits));
}

/** The first 32 fraction bits of a root of the first primes: where SHA-256's constants come from. */
function fractionBits(count: number, power: number): Uint32Array {
  const bits: number[] = [];
  for (let candidate = 2; bits.length < count; candidate++) {
    if (!isPrime(candidate)) continue;
    const root = candidate ** power;
    bits.push(Math.floor((root - Math.floor(root)) * 2 ** 32));
  }
  return Uint32Array.from(bits);
}

function isPrime(candidate: number): boolean {
  for (let divisor = 2; divisor * divisor <= candidate; divisor++) {
    if (candidate % divisor === 0) return false;
  }
  return true;
}
