/** Reads the output of launchctl. Its format is not a stable interface, so only recorded fields are used. Pure. */

/** Exit code of `launchctl print` and `kickstart` for a missing service. */
export const NOT_FOUND = 113;
/** Exit code for the domain `gui/UID` of a user who is not logged in at the screen. It has no services. */
export const NO_DOMAIN = 125;

/** Fields of `launchctl print`: only lines with a single leading tab, because nested blocks reuse the keys. */
export function parseJobFields(text: string): ReadonlyMap<string, string> {
  const lines = [...text.matchAll(/^\t([^\t=\n]+?) = (.*)$/gm)];
  // The first of several lines with one key counts.
  return new Map(lines.reverse().map(([, key = "", value = ""]) => [key, value]));
}
