/** Formats a time in RFC 3339 with whole seconds, as in the API. `wallMs` is milliseconds since 1970. */
export function isoSeconds(wallMs: number): string {
  return new Date(wallMs).toISOString().replace(/\.\d{3}Z$/, "Z");
}
