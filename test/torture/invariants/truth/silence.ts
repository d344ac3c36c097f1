/** A host that fell silent: its Lease runs out, and within 5 s more the cluster stops sending it requests and says so. */
import { eventsOf, type Recording } from "../../observe/recording.ts";
import { HOSTS } from "../../plan/catalog.ts";
import { servingOf } from "../derive/engines.ts";
import { apiAway, controllerAway, silent } from "../derive/outages.ts";
import { extend, lagMs, lengthOf, overlaps, type Span, spansOf, subtract, union } from "../derive/spans.ts";
import type { Invariant, Violation } from "../invariant.ts";
import { seconds } from "./claims.ts";

/** 40 s since the last renewal that the controller saw, and 5 s. */
const WITHIN_MS = 45_000;
/** A new leader restarts the count, after waiting for the old leader's Lease to expire. */
const TAKES_OVER_MS = 20_000;
/** Three hosts silent within one window: an outage of the cluster, not of its hosts. */
const WINDOW_MS = 40_000;

export const silentHosts: Invariant = {
  name: "silent-hosts",
  promise: "A host that is cut off is out of its Services 5 s after its Lease at the latest.",
  check: (recording, now) => {
    const interrupted = extend(
      union([...apiAway(recording, now), ...controllerAway(recording, now)]),
      TAKES_OVER_MS,
    );
    return HOSTS.flatMap((host) => {
      const silences = silent(recording, host, now).filter((span) => !isMass(recording, host, span, now));
      const judged = subtract(silences, interrupted)
        .map((span) => ({ from: span.from + WITHIN_MS + lagMs(recording, span), to: span.to }))
        .filter((span) => lengthOf(span) > 0);
      return judged.flatMap((span) => [
        ...stillServing(recording, host, span, now),
        ...stillReachable(recording, host, span, now),
      ]);
    });
  },
};

function stillServing(recording: Recording, host: string, span: Span, now: number): readonly Violation[] {
  return servingOf(recording, now)
    .filter((claim) => claim.host === host && overlaps(span, claim.spans))
    .map(({ replica, service }) => ({
      invariant: "silent-hosts",
      at: span.from,
      message: `${host} was silent for ${seconds(WITHIN_MS)} s and more, and replica ${replica} still got connections`,
      about: [host, replica, service],
    }));
}

function stillReachable(recording: Recording, host: string, span: Span, now: number): readonly Violation[] {
  const events = eventsOf(recording, "host").filter(({ name }) => name === host);
  const reachable = spansOf(events, (event) => event.reachable === "True", now);
  if (!overlaps(span, reachable)) return [];
  const message = `${host} was silent for ${seconds(WITHIN_MS)} s and more, and its Host still said Reachable`;
  return [{ invariant: "silent-hosts", at: span.from, message, about: [host] }];
}

function isMass(recording: Recording, host: string, { from, to }: Span, now: number): boolean {
  const near = { from: from - WINDOW_MS, to: Math.min(to, from + WINDOW_MS) };
  return HOSTS.filter((other) => other !== host).every((other) =>
    silent(recording, other, now).some((span) => lengthOf(span) > WINDOW_MS / 2 && overlaps(near, [span])),
  );
}
