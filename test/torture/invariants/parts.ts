/** Agent and controller exit only when asked to stop. */
import { eventsOf } from "../observe/recording.ts";
import { servingOf } from "./derive/engines.ts";
import { agentAway, gateAway } from "./derive/outages.ts";
import { extend, lagMs, lengthOf, subtract } from "./derive/spans.ts";
import type { Invariant } from "./invariant.ts";
import { seconds } from "./truth/claims.ts";

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

/** Its exit is noticed in a quarter of a second, it starts a second later, and twice that with each exit soon after the last. */
const GATE_WITHIN_MS = 10_000;
/** An agent that starts adopts its engines first. */
const AGENT_STARTS_MS = 10_000;

export const gateReturns: Invariant = {
  name: "gate-returns",
  promise: "A gate that was killed is replaced within 10 s while a replica behind it has an endpoint.",
  check: (recording, now) =>
    servingOf(recording, now).flatMap(({ host, replica, spans }) => {
      const without = gateAway(recording, host, now);
      const served = subtract(without, subtract(without, spans));
      return subtract(served, extend(agentAway(recording, host, now), AGENT_STARTS_MS))
        .filter((span) => lengthOf(span) > GATE_WITHIN_MS + lagMs(recording, span))
        .map((span) => ({
          invariant: "gate-returns",
          at: span.from + GATE_WITHIN_MS,
          message: `${host} had no gate for ${seconds(lengthOf(span))} s, and replica ${replica} still got connections`,
          about: [host, replica],
        }));
    }),
};
