/** Wall times as the API shows them. */

/** RFC 3339 with whole seconds. */
export function isoSeconds(wallMs: number): string {
  return new Date(wallMs).toISOString().replace(/\.\d+Z$/, "Z");
}
