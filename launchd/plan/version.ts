/** Versions of releases, compared as Semantic Versioning says. Pure. */

const SEMVER = /^(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$/;

/** A valid version is also safe as a folder name. */
export function isVersion(text: string): boolean {
  return SEMVER.test(text) && !text.includes("..");
}

/** Negative if `one` is older. A release is newer than its pre-releases. Throws for text that is not a version. */
export function compareReleases(one: string, other: string): number {
  const [a, b] = [partsOf(one), partsOf(other)];
  for (let index = 0; index < 3; index += 1) {
    const difference = (a.numbers[index] ?? 0) - (b.numbers[index] ?? 0);
    if (difference !== 0) return difference;
  }
  if (a.pre.length === 0 || b.pre.length === 0) return b.pre.length - a.pre.length;
  return comparePre(a.pre, b.pre);
}

function partsOf(version: string): { readonly numbers: readonly number[]; readonly pre: readonly string[] } {
  const match = SEMVER.exec(version);
  if (match === null) throw new TypeError(`${JSON.stringify(version)} is not a version`);
  return { numbers: match.slice(1, 4).map(Number), pre: match[4]?.split(".") ?? [] };
}

function comparePre(one: readonly string[], other: readonly string[]): number {
  for (let index = 0; index < Math.max(one.length, other.length); index += 1) {
    const [a, b] = [one[index], other[index]];
    if (a === undefined || b === undefined) return one.length - other.length;
    if (a !== b) return compareIdentifier(a, b);
  }
  return 0;
}

function compareIdentifier(one: string, other: string): number {
  const [isNumber, isOtherNumber] = [/^\d+$/.test(one), /^\d+$/.test(other)];
  if (isNumber && isOtherNumber) return Number(one) - Number(other);
  if (isNumber !== isOtherNumber) return isNumber ? -1 : 1;
  return one < other ? -1 : 1;
}
