/** Finds values in JSON text without parsing it: a list of 5,000 Nodes has tens of megabytes, of which only the names are read. Pure. */

const [QUOTE, BACKSLASH, COLON, COMMA] = [0x22, 0x5c, 0x3a, 0x2c];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Returns the position after the value at `at`, usually by `endOfValue`. */
type Visit = (at: number) => number;

/** Position of the first byte at or after `at` that is no white space. */
export function skipSpace(text: Uint8Array, at: number): number {
  let next = at;
  while (text[next] === 0x20 || text[next] === 0x0a || text[next] === 0x0d || text[next] === 0x09) next += 1;
  return next;
}

/** Visits the members with these keys; returns the position after the object. Throws SyntaxError if no object starts at `at`. */
export function walkObject(text: Uint8Array, at: number, visits: Readonly<Record<string, Visit>>): number {
  const wanted = Object.entries(visits);
  return walk(text, at, [OPEN_OBJECT, CLOSE_OBJECT], (keyAt) => {
    if (text[keyAt] !== QUOTE) throw malformed(keyAt);
    const keyEnd = endOfString(text, keyAt);
    const colon = skipSpace(text, keyEnd);
    if (text[colon] !== COLON) throw malformed(colon);
    const valueAt = skipSpace(text, colon + 1);
    const visit = wanted.find(([key]) => isKey(text, keyAt + 1, keyEnd - 1, key))?.[1];
    return visit === undefined ? endOfValue(text, valueAt) : visit(valueAt);
  });
}

/** Visits every item; returns the position after the list. Throws SyntaxError if no list starts at `at`. */
export function walkList(text: Uint8Array, at: number, visit: Visit): number {
  return walk(text, at, [OPEN_LIST, CLOSE_LIST], visit);
}

function walk(text: Uint8Array, at: number, [open, close]: readonly [number, number], visit: Visit): number {
  if (text[at] !== open) throw malformed(at);
  let next = skipSpace(text, at + 1);
  if (text[next] === close) return next + 1;
  for (;;) {
    next = skipSpace(text, visit(next));
    if (text[next] === close) return next + 1;
    if (text[next] !== COMMA) throw malformed(next);
    next = skipSpace(text, next + 1);
  }
}

/** Position after a value. Checks strings and nesting only. Throws SyntaxError if the text ends before. */
export function endOfValue(text: Uint8Array, at: number): number {
  if (text[at] === QUOTE) return endOfString(text, at);
  if (text[at] !== OPEN_OBJECT && text[at] !== OPEN_LIST) return endOfWord(text, at);
  let depth = 0;
  for (let next = at; next < text.length; next += 1) {
    const byte = text[next];
    if (byte === QUOTE) next = endOfString(text, next) - 1;
    else if (byte === OPEN_OBJECT || byte === OPEN_LIST) depth += 1;
    else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) depth -= 1;
    if (depth === 0) return next + 1;
  }
  throw malformed(text.length);
}

/** The word is a number, true, false or null. */
function endOfWord(text: Uint8Array, at: number): number {
  let next = at;
  while (isWord(text[next])) next += 1;
  if (next === at) throw malformed(at);
  return next;
}

/** Digits, letters, and the signs and points of numbers. */
function isWord(byte = 0): boolean {
  return (
    (byte >= 0x30 && byte <= 0x39) ||
    (byte >= 0x61 && byte <= 0x7a) ||
    /[-+.E]/.test(String.fromCharCode(byte))
  );
}

function endOfString(text: Uint8Array, at: number): number {
  for (let next = at + 1; next < text.length; next += 1) {
    if (text[next] === BACKSLASH) next += 1;
    else if (text[next] === QUOTE) return next + 1;
  }
  throw malformed(text.length);
}

/** Clients do not escape these keys. */
function isKey(text: Uint8Array, from: number, to: number, key: string): boolean {
  if (to - from !== key.length) return false;
  for (let index = 0; index < key.length; index += 1)
    if (text[from + index] !== key.charCodeAt(index)) return false;
  return true;
}

function malformed(at: number): SyntaxError {
  return new SyntaxError(`malformed JSON at byte ${at}`);
}
