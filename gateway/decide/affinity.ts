/** The prefix of a prompt, by which requests of one conversation are recognized. Pure. */

/** Beginning of the conversation that counts, in characters. */
const PREFIX_CHARACTERS = 1_024;
const START = /"(?:messages|input|prompt|system)"\s*:\s*/;

/**
 * The beginning of the prompt in the first bytes of a JSON body, up to the end of the first message of a user: it stays the same
 * while a conversation grows. Undefined if the body does not begin with one.
 */
export function promptPrefix(bodyStart: string): string | undefined {
  const start = START.exec(bodyStart);
  if (start === null) return undefined;
  const text = bodyStart.slice(start.index + start[0].length);
  const user = text.indexOf('"user"');
  const end = user < 0 ? text.length : endOfObject(text, text.lastIndexOf("{", user));
  return text.slice(0, Math.min(end, PREFIX_CHARACTERS));
}

/** A string, or a bracket outside of strings. */
const TOKEN = /"(?:[^"\\]|\\.)*"|[[\]{}]/g;

/** Index after the object that begins at `from`, or the length of the text if it ends before. */
function endOfObject(text: string, from: number): number {
  let depth = 0;
  for (const { 0: token, index } of text.slice(Math.max(0, from)).matchAll(TOKEN)) {
    if (token === "{" || token === "[") depth += 1;
    if (token === "}" || token === "]") depth -= 1;
    if (depth === 0) return Math.max(0, from) + index + 1;
  }
  return text.length;
}
