/** When two answers count as the same. */
import { createHash } from "node:crypto";

/** Weak: when a node was last heard of changes all the time and does not count. The same from every replica of the server. */
export function tagOf(text: string): string {
  return `W/"${createHash("sha256").update(withoutTimes(text)).digest("base64url").slice(0, 27)}"`;
}

export function withoutTimes(text: string): string {
  return text.replaceAll(/"(lastSeen|LastSeen)":"[^"]*"/g, "");
}
