/** Reads `launchctl print`. Its format is no interface, so only what was recorded is used. Pure. */
import type { ManagedJob } from "../plan/observed.ts";

/** `launchctl print` of a missing service, and `kickstart` of one. */
export const NOT_FOUND = 113;
/** `gui/UID` without a login at the screen: it has no services. */
export const NO_DOMAIN = 125;

export interface PrintedJob {
  readonly path: string | undefined;
  readonly state: string;
  readonly pid: number | undefined;
  readonly runs: number | undefined;
  readonly lastExit: string | undefined;
}

/** Only lines with a single leading tab: nested blocks reuse the keys. */
export function parsePrint(text: string): PrintedJob {
  const fields = new Map<string, string>();
  for (const line of text.split("\n")) {
    const match = /^\t([^\t=]+?) = (.*)$/.exec(line);
    if (match?.[1] !== undefined && !fields.has(match[1])) fields.set(match[1], match[2] ?? "");
  }
  return {
    path: fields.get("path"),
    state: fields.get("state") ?? "unknown",
    pid: numberOf(fields.get("pid")),
    runs: numberOf(fields.get("runs")),
    // A signal stands under a key of its own, instead of the code.
    lastExit: fields.get("last terminating signal") ?? exited(fields.get("last exit code")),
  };
}

export function jobOf(printed: PrintedJob, isDisabled: boolean): ManagedJob {
  return { at: "loaded", isDisabled, isLeaving: /^SIG(TERM|KILL)/.test(printed.state), ...printed };
}

/** Of `launchctl print-disabled DOMAIN`: `"label" => disabled`, `=> true` on older versions. */
export function isDisabledIn(text: string, label: string): boolean {
  return text.split("\n").some((line) => {
    const match = /^\s*"([^"]+)" => (\w+)/.exec(line);
    return match?.[1] === label && (match[2] === "disabled" || match[2] === "true");
  });
}

function exited(code: string | undefined): string | undefined {
  return code === "(never exited)" ? undefined : code;
}

function numberOf(text: string | undefined): number | undefined {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : undefined;
}
