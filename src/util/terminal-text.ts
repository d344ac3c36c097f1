/** Makes untrusted text safe for a terminal. Pure. */

/**
 * Matches control characters except line feed and tab, and characters that reorder text: statuses, Events, logs and models
 * contain text of users, hosts and sources. The colors of our own output are allowed: bold, dim, reset and the plain foreground colors.
 */
const COLOR = "\u001b\\[(?:0|1|2|22|3[1-79])m";
const UNSAFE = new RegExp(`${COLOR}|(?![\\n\\t])[\\p{Cc}\\u202a-\\u202e\\u2066-\\u2069]`, "gu");

/**
 * Replaces unsafe characters with visible escapes (`\u202e`). In JSON, an escape is the same string, so JSON stays valid.
 * Each character is replaced independently, so a stream may be passed in pieces.
 */
export function terminalText(text: string): string {
  return text.replace(UNSAFE, (found) =>
    found.length > 1 ? found : `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
