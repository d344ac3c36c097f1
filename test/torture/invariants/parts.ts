/** Agent and controller exit only when asked to stop. */
import { eventsOf } from "../observe/recording.ts";
import type { Invariant } from "./invariant.ts";

export const partsLive: Invariant = {
  name: "parts-live",
  promise: "Agents and controller never exit unless asked to stop, whatever happens around them.",
  check: (recording) =>
    eventsOf(recording, "part")
      .filter(({ change }) => change === "endedUnasked")
      .map(({ at, part, host, detail }) => ({
        invariant: "parts-live",
        at,
        message: `the ${part}${host === undefined ? "" : ` of ${host}`} exited without being asked to stop (${detail})`,
        about: host === undefined ? [] : [host],
      })),
};
