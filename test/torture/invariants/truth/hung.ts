/** An engine that answers no request is detected as hung, although its process lives. */
import { livesOf, servingOf } from "../derive/engines.ts";
import { agentBlocked } from "../derive/outages.ts";
import { lagMs, lengthOf, subtract } from "../derive/spans.ts";
import type { Invariant } from "../invariant.ts";
import { seconds } from "./claims.ts";

/** Probed every 5 s and given 5 s to answer; up to three failed probes where the process state cannot be read; and the withdrawal. */
const WITHIN_MS = 35_000;

export const hungEngines: Invariant = {
  name: "hung-engines",
  promise: "A frozen engine is withdrawn within 35 s.",
  check: (recording, now) => {
    const serving = servingOf(recording, now);
    return livesOf(recording, now).flatMap(({ uid, host, pid, paused }) => {
      const spans = serving.filter(({ uids }) => uids.includes(uid)).flatMap((claim) => claim.spans);
      const announced = subtract(paused, subtract(paused, spans));
      const unseen = subtract(announced, agentBlocked(recording, host, now));
      return unseen
        .filter((span) => lengthOf(span) > WITHIN_MS + lagMs(recording, span))
        .map((span) => ({
          invariant: "hung-engines",
          at: span.from + WITHIN_MS,
          message: `engine ${pid} on ${host} was frozen for ${seconds(lengthOf(span))} s and still got connections`,
          about: [uid, host],
        }));
    });
  },
};
