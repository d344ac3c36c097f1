/** A daemon that was found running: others started it, and others end it. */
import type { Instance, InstanceTarget } from "../instance.ts";

/** Looks like a process that always runs: whether it answers is a matter of probes. */
export function externalDaemon(target: InstanceTarget): Instance {
  return {
    target,
    state: () => ({ at: "running" }),
    handle: {},
    logPath: "",
    stopBy: () => {},
    endNow: () => {},
    footprintBytes: async () => undefined,
    activity: async () => "unknown",
    restoreFiles: () => false,
    logTail: async () => "",
    close: () => {},
  };
}
