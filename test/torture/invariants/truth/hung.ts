/** An engine that answers no request is detected as hung, although its process lives; and no other engine is. */
import { eventsOf, type Recording } from "../../observe/recording.ts";
import { livesOf, servingOf } from "../derive/engines.ts";
import { agentBlocked } from "../derive/outages.ts";
import { lagMs, lengthOf, type Span, subtract } from "../derive/spans.ts";
import type { Invariant } from "../invariant.ts";
import { seconds } from "./claims.ts";

/** Probed every 5 s, given 5 s to answer, and withdrawn: a stopped process needs no second probe. */
const WITHIN_MS = 11_000;
/** A server whose process for the model is stopped runs, and is asked three times. */
const BEHIND_SERVER_MS = 35_000;
const SAME_MS = 1_000;
/** From the end of a freeze to the last verdict that may rest on it. */
const EVIDENCE_MS = 30_000;
/** A machine that was stalled for as long makes engines time out. */
const STILL_MS = 5_000;

export const hungEngines: Invariant = {
  name: "hung-engines",
  promise: "A frozen engine is withdrawn within 11 s, one behind a server that answers within 35 s.",
  check: (recording, now) => {
    const serving = servingOf(recording, now);
    return livesOf(recording, now).flatMap(({ uid, host, pid, paused }) => {
      const spans = serving.filter(({ uids }) => uids.includes(uid)).flatMap((claim) => claim.spans);
      const announced = subtract(paused, subtract(paused, spans));
      const unseen = subtract(announced, agentBlocked(recording, host, now));
      return unseen
        .map((span) => ({ span, withinMs: withinMs(recording, span) }))
        .filter(({ span, withinMs }) => lengthOf(span) > withinMs + lagMs(recording, span))
        .map(({ span, withinMs }) => ({
          invariant: "hung-engines",
          at: span.from + withinMs,
          message: `engine ${pid} on ${host} was frozen for ${seconds(lengthOf(span))} s and still got connections`,
          about: [uid, host],
        }));
    });
  },
};

export const falseHangs: Invariant = {
  name: "false-hangs",
  promise: "No engine is called hung that no fault has frozen.",
  check: (recording, now) => {
    const lives = livesOf(recording, now);
    return eventsOf(recording, "replica")
      .filter(({ reason }) => reason === "EngineHung")
      .filter(({ uid, at }) => {
        const evidence: Span = { from: at - EVIDENCE_MS, to: at };
        const wasFrozen = lives
          .filter((life) => life.uid === uid)
          .some(({ paused }) => paused.some(({ from, to }) => from <= at && to >= evidence.from));
        return !wasFrozen && lagMs(recording, evidence) < STILL_MS;
      })
      .map(({ uid, name, host, at, message }) => ({
        invariant: "false-hangs",
        at,
        message: `replica ${name} on ${host} was called hung, and nothing had frozen it: ${message}`,
        about: [uid, host],
      }));
  },
};

function withinMs(recording: Recording, { from }: Span): number {
  const isBehindServer = eventsOf(recording, "fault").some(
    ({ kind, phase, at }) =>
      kind === "runner-pause" && phase === "injected" && Math.abs(at - from) <= SAME_MS,
  );
  return isBehindServer ? BEHIND_SERVER_MS : WITHIN_MS;
}
