/** Whatever is not Ready says why, in a code and in words. */
import { eventsOf } from "../../observe/recording.ts";
import type { Invariant } from "../invariant.ts";

export const statedReasons: Invariant = {
  name: "stated-reasons",
  promise: "Every replica that its agent has seen and that is not Ready has a reason and a sentence.",
  check: (recording) =>
    eventsOf(recording, "replica")
      .filter(
        ({ phase, reason, message }) =>
          phase !== "" && phase !== "Ready" && (reason === "" || message === ""),
      )
      .map(({ at, name, phase, uid, host }) => ({
        invariant: "stated-reasons",
        at,
        message: `replica ${name} is ${phase} and does not say why`,
        about: [uid, name, host],
      })),
};
