/** Compares and truncates text. */

/** Compares by UTF-16 code units, so that the order is the same on every machine. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * Truncates to `maxLength` UTF-16 units, including an ellipsis. Never splits a character, because the API server cannot store
 * a lone surrogate.
 */
export function truncate(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  const end = Math.max(0, maxLength - 1);
  const isInside = /[\ud800-\udbff]/.test(text.charAt(end - 1)) && /[\udc00-\udfff]/.test(text.charAt(end));
  return `${text.slice(0, isInside ? end - 1 : end)}…`;
}

/** Truncates to bytes of UTF-8, which is how the API server limits the note of an Event. */
export function truncateBytes(text: string, maxBytes: number): string {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= maxBytes) return text;
  const room = Math.max(0, maxBytes - ELLIPSIS_BYTES);
  // In streaming mode, the decoder omits an incomplete character at the end.
  return `${new TextDecoder().decode(bytes.subarray(0, room), { stream: true })}…`;
}

const ELLIPSIS_BYTES = 3;
