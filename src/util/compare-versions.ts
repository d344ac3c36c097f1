/** The version of an engine that was built without one. It counts as the newest. */
export const DEVELOPMENT_BUILD = "development build";

/** Compares the numbers of two versions from left to right: b10114 is older than b11669, and 0.3.9 older than 0.3.11. */
export function compareVersions(one: string, other: string): number {
  if (one === DEVELOPMENT_BUILD || other === DEVELOPMENT_BUILD)
    return Number(one === DEVELOPMENT_BUILD) - Number(other === DEVELOPMENT_BUILD);
  const [a, b] = [one, other].map((text) => (text.match(/\d+/g) ?? []).map(Number));
  const length = Math.max(a?.length ?? 0, b?.length ?? 0);
  for (let index = 0; index < length; index += 1) {
    const difference = (a?.[index] ?? 0) - (b?.[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
