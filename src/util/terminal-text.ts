/** Text that a terminal shows and never obeys. Pure. */

/**
 * Control characters but line feed and tab, and what reorders the text around it: statuses, Events, logs and models hold
 * what users, hosts and sources put there. The colors of our own screens stay: bold, dim, reset and the plain foreground colors.
 */
const COLOR = "\u001b\\[(?:0|1|2|22|3[1-79])m";
const UNSAFE = new RegExp(`${COLOR}|(?![\\n\\t])[\\p{Cc}\\u202a-\\u202e\\u2066-\\u2069]`, "gu");

/**
 * Unsafe characters become visible escapes (`\u202e`). In JSON that is the same string, so JSON stays JSON. Character by
 * character: a stream may be passed in pieces.
 */
export function terminalText(text: string): string {
  return text.replace(UNSAFE, (found) =>
    found.length > 1 ? found : `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
