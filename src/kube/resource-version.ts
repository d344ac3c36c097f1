/** Compares resourceVersions, which are decimal numbers of any length. A version that is not a number is not older. */
export function isOlderVersion(version: string, than: string): boolean {
  const isNumber = /^\d+$/;
  if (!isNumber.test(version) || !isNumber.test(than)) return false;
  return version.length === than.length ? version < than : version.length < than.length;
}
