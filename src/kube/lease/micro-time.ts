/** Kubernetes' MicroTime. */

/** Wall-clock milliseconds as a MicroTime; a plain ISO string would do, with less precision than others write. */
export function microTime(nowMs: number): string {
  return new Date(nowMs).toISOString().replace("Z", "000Z");
}
