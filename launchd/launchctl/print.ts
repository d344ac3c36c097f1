/** Reads the agent's job from the output of launchctl. Pure. */
import { parseJobFields } from "../../src/macos/launchctl.ts";
import { parseCount } from "../../src/macos/parse.ts";
import type { ManagedJob } from "../plan/observed.ts";

/** Reads `launchctl print`. */
export function parseJob(text: string, isDisabled: boolean): ManagedJob {
  const fields = parseJobFields(text);
  const state = fields.get("state") ?? "unknown";
  const exitCode = fields.get("last exit code");
  return {
    at: "loaded",
    isDisabled,
    path: fields.get("path"),
    state,
    pid: parseCount(fields.get("pid")),
    runs: parseCount(fields.get("runs")),
    // A signal has a separate key and replaces the exit code.
    lastExit: fields.get("last terminating signal") ?? (exitCode === "(never exited)" ? undefined : exitCode),
    isLeaving: /^SIG(TERM|KILL)/.test(state),
  };
}

/** Reads `launchctl print-disabled DOMAIN`: `"label" => disabled`, or `=> true` on older versions. */
export function isDisabledIn(text: string, label: string): boolean {
  return text.split("\n").some((line) => {
    const match = /^\s*"([^"]+)" => (\w+)/.exec(line);
    return match?.[1] === label && (match[2] === "disabled" || match[2] === "true");
  });
}
