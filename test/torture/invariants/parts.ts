/** Agent and controller end only when they are told to. */
import { eventsOf } from "../observe/recording.ts";
import type { Invariant } from "./invariant.ts";

export const partsLive: Invariant = {
  name: "parts-live",
  promise: "Agents and controller never end by themselves, whatever happens around them.",
  check: (recording) =>
    eventsOf(recording, "part")
      .filter(({ change }) => change === "endedUnasked")
      .map(({ at, part, host, detail }) => ({
        invariant: "parts-live",
        at,
        message: `the ${part}${host === undefined ? "" : ` of ${host}`} ended by itself (${detail})`,
        about: host === undefined ? [] : [host],
      })),
};
