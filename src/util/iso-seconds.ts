/** RFC 3339 with whole seconds, as the API shows times; `wallMs` is milliseconds since 1970. */
export function isoSeconds(wallMs: number): string {
  return new Date(wallMs).toISOString().replace(/\.\d{3}Z$/, "Z");
}
