/** Nothing stays behind: not after everything was deleted, and no engine outlives its replica on the way there. */
import { eventsOf, type Recording } from "../observe/recording.ts";
import { livesOf } from "./derive/engines.ts";
import { agentBlocked } from "./derive/outages.ts";
import { lagMs, lengthOf, subtract } from "./derive/spans.ts";
import type { Invariant } from "./invariant.ts";
import { seconds } from "./truth/claims.ts";

export const leftovers: Invariant = {
  name: "leftovers",
  promise:
    "After everything was deleted no engine, port, file, pod, control group, mount, slice, finalizer or Lease is left.",
  check: (recording) =>
    eventsOf(recording, "leftovers").flatMap(({ at, items }) =>
      items.map((item) => ({ invariant: "leftovers", at, message: `left behind: ${item}`, about: [] })),
    ),
};

/** The longest drain of these services, propagation, and TERM, TERM, KILL. */
const STOPS_WITHIN_MS = 25_000;

export const orphans: Invariant = {
  name: "orphans",
  promise: "An engine whose replica is gone is drained and stopped as soon as its agent can know.",
  check: (recording, now) => {
    const gone = goneAt(recording);
    return livesOf(recording, now).flatMap(({ uid, host, pid, from, to }) => {
      const since = gone.get(uid);
      if (since === undefined || to <= since) return [];
      const alone = [{ from: Math.max(from, since), to }];
      return subtract(alone, agentBlocked(recording, host, now))
        .filter((span) => lengthOf(span) > STOPS_WITHIN_MS + lagMs(recording, span))
        .map((span) => ({
          invariant: "orphans",
          at: span.from + STOPS_WITHIN_MS,
          message: `engine ${pid} on ${host} ran for ${seconds(lengthOf(span))} s after its replica was gone`,
          about: [uid, host],
        }));
    });
  },
};

function goneAt(recording: Recording): ReadonlyMap<string, number> {
  return new Map(
    [...eventsOf(recording, "replica"), ...eventsOf(recording, "pod")]
      .filter(({ isGone }) => isGone)
      .map(({ uid, at }) => [uid, at]),
  );
}
