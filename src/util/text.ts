/** Texts: limits and order. */

/** Order by UTF-16 code units, the same on every machine. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * At most `maxLength` UTF-16 units, the last of them an ellipsis where something was cut. Never cuts a character in half:
 * half an emoji is a lone surrogate, which the API server cannot store.
 */
export function truncate(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  const end = Math.max(0, maxLength - 1);
  const isInside = /[\ud800-\udbff]/.test(text.charAt(end - 1)) && /[\udc00-\udfff]/.test(text.charAt(end));
  return `${text.slice(0, isInside ? end - 1 : end)}…`;
}

/** The same in bytes of UTF-8, which is how the API server limits the note of an Event. */
export function truncateBytes(text: string, maxBytes: number): string {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= maxBytes) return text;
  const room = Math.max(0, maxBytes - ELLIPSIS_BYTES);
  // Streaming keeps back the bytes of a character that is not complete.
  return `${new TextDecoder().decode(bytes.subarray(0, room), { stream: true })}…`;
}

const ELLIPSIS_BYTES = 3;
