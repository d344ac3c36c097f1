/** When two answers count as the same. */
import { createHash } from "node:crypto";

const TIMES = /"(lastSeen|LastSeen)":"[^"]*"/g;

/** Weak: when a node was last heard of changes all the time and does not count. The same from every replica of the server. */
export function tagOf(text: string): string {
  const hash = createHash("sha256");
  let from = 0;
  // Part by part: a copy of an answer of a megabyte would stay in memory until the next collection.
  for (const { index, 0: time } of text.matchAll(TIMES)) {
    hash.update(text.slice(from, index));
    from = index + time.length;
  }
  return `W/"${hash.update(text.slice(from)).digest("base64url").slice(0, 27)}"`;
}

export function withoutTimes(text: string): string {
  return text.replaceAll(TIMES, "");
}
