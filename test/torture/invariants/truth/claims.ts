/** Status and endpoints tell the truth about engines: within 5 s of the evidence, where the agent can tell at all. */
import type { Recording } from "../../observe/recording.ts";
import { type Claimed, livesOf, readyOf, servingOf } from "../derive/engines.ts";
import { agentBlocked } from "../derive/outages.ts";
import { lagMs, lengthOf, subtract } from "../derive/spans.ts";
import type { Invariant, Violation } from "../invariant.ts";

const WITHIN_MS = 5_000;

export const truthOfEndpoints: Invariant = {
  name: "truth-of-endpoints",
  promise: "An endpoint without a living engine is withdrawn within 5 s of the engine's end.",
  check: (recording, now) =>
    lies(
      recording,
      now,
      servingOf(recording, now),
      "truth-of-endpoints",
      "its endpoint still got connections",
    ),
};

export const truthOfReplicas: Invariant = {
  name: "truth-of-replicas",
  promise: "A replica without a living engine does not say Ready for more than 5 s.",
  check: (recording, now) =>
    lies(recording, now, readyOf(recording, now), "truth-of-replicas", "its status still said Ready"),
};

function lies(
  recording: Recording,
  now: number,
  claims: readonly Claimed[],
  invariant: string,
  what: string,
): readonly Violation[] {
  const lives = livesOf(recording, now);
  return claims.flatMap(({ replica, uids, service, host, spans }) => {
    const alive = lives.filter(({ uid }) => uids.includes(uid));
    const untrue = subtract(subtract(spans, alive), agentBlocked(recording, host, now));
    return untrue
      .filter((span) => lengthOf(span) > WITHIN_MS + lagMs(recording, span))
      .map((span) => ({
        invariant,
        at: span.from + WITHIN_MS,
        message: `replica ${replica} on ${host} had no engine for ${seconds(lengthOf(span))} s, and ${what}`,
        about: [...uids, replica, service, host],
      }));
  });
}

export function seconds(ms: number): string {
  return (ms / 1_000).toFixed(1);
}
