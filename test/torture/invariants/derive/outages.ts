/** When which part of the chain from an engine to the cluster's eyes was broken on purpose. Pure. */

import { PROXY_RESOURCES } from "../../observe/proxy.ts";
import { eventsOf, type LinkNow, type Recording } from "../../observe/recording.ts";
import { extend, lengthOf, type Span, spansOf, subtract, union } from "./spans.ts";

/** Retries wait longer the longer something was away; after it is back they need this much at most. */
const RECOVERY_MS = 20_000;

export function apiAway(recording: Recording, now: number): readonly Span[] {
  return spansOf(eventsOf(recording, "api"), ({ isUp }) => !isUp, now);
}

/** Dead, not started yet, or frozen. A node's agent is its kubelet. */
export function agentAway(recording: Recording, host: string, now: number): readonly Span[] {
  const events = eventsOf(recording, "part").filter(
    ({ part, host: on }) => (part === "agent" || part === "kubelet") && on === host,
  );
  return spansOf(events, ({ change }) => change !== "started" && change !== "resumed", now);
}

/** Killed, and not started again. */
export function gateAway(recording: Recording, host: string, now: number): readonly Span[] {
  const events = eventsOf(recording, "part").filter((event) => event.part === "gate" && event.host === host);
  return spansOf(events, ({ change }) => change === "ended", now);
}

export function controllerAway(recording: Recording, now: number): readonly Span[] {
  const events = eventsOf(recording, "part").filter(({ part }) => part === "controller");
  return spansOf(events, ({ change }) => change !== "started" && change !== "resumed", now);
}

/** In one of those states. */
export function linkIn(
  recording: Recording,
  host: string,
  states: readonly LinkNow[],
  now: number,
): readonly Span[] {
  const events = eventsOf(recording, "link").filter((event) => event.host === host);
  return spansOf(events, ({ state }) => states.includes(state), now);
}

/** Cut altogether, or from the API server. */
export function linkAway(recording: Recording, host: string, now: number): readonly Span[] {
  return linkIn(recording, host, ["cut", "apiCut"], now);
}

/** A new address ends every connection of the host, and its agent's with the API server. */
function moved(recording: Recording, host: string): readonly Span[] {
  const events = eventsOf(recording, "address").filter((event) => event.host === host);
  return events.map(({ at }) => ({ from: at, to: at }));
}

/** The host's Lease is not renewed. */
export function silent(recording: Recording, host: string, now: number): readonly Span[] {
  return union([...agentAway(recording, host, now), ...linkAway(recording, host, now)]);
}

/** An agent renews every 10 s, and at once when it starts. */
const RENEWS_MS = 10_000;
const LEASE_MS = 40_000;

/** Without a renewal of its Lease a node is unreachable after this, as the flags of the bed say. */
const NODE_GRACE_MS = 20_000;
/** After an outage of the API server all Leases look old at first. */
const NODE_RENEWS_MS = 2_000;

/** The host's Lease may rightly have expired: no renewal is certain to have arrived for the Lease's duration. */
export function leaseOver(recording: Recording, host: string, now: number): readonly Span[] {
  if (eventsOf(recording, "part").some(({ part, host: on }) => part === "kubelet" && on === host)) {
    const away = union([...apiAway(recording, now), ...agentAway(recording, host, now)]);
    return extend(away, RECOVERY_MS)
      .map(({ from, to }) => ({ from: from + NODE_GRACE_MS - NODE_RENEWS_MS, to }))
      .filter((span) => lengthOf(span) > RECOVERY_MS - NODE_GRACE_MS + NODE_RENEWS_MS);
  }
  const unsure = [...silent(recording, host, now), ...linkIn(recording, host, ["slow", "lossy"], now)];
  return union(extend(unsure, RENEWS_MS))
    .map(({ from, to }) => ({ from: from + LEASE_MS - RENEWS_MS, to }))
    .filter((span) => lengthOf(span) > 0);
}

/** The host's agent cannot tell the cluster in time, or has only just been able to again. */
export function agentBlocked(recording: Recording, host: string, now: number): readonly Span[] {
  return extend(
    union([
      ...apiAway(recording, now),
      ...silent(recording, host, now),
      ...linkIn(recording, host, ["slow", "lossy"], now),
      ...moved(recording, host),
    ]),
    RECOVERY_MS,
  );
}

/** A new controller first outwaits the leadership of the one that was killed; watches that failed often wait up to half a minute. */
const LEADER_MS = 35_000;

export function controllerBlocked(recording: Recording, now: number): readonly Span[] {
  return extend(
    union([...apiAway(recording, now), ...controllerAway(recording, now)]),
    Math.max(RECOVERY_MS, LEADER_MS),
  );
}

/**
 * How long it may rightly have no watch once the API server is back. A watch that client-go takes up again after an outage is
 * answered with 410, for a restarted API server knows no earlier changes; it lists only after one more wait. Each wait lasts up to
 * 30 s and as much again for jitter, and one try may fail in the first seconds of a server that calls itself ready.
 */
const BLIND_MS = 140_000;
/** From the beginning of its watch until it has read what the watch begins with. */
const READS_MS = 2_000;

/** Times in which kube-proxy may rightly not know what the API server knows; before and after them it has to follow at once. */
export function proxyBlind(recording: Recording, now: number): readonly Span[] {
  const excusable = union(extend(apiAway(recording, now), BLIND_MS));
  const deaf = PROXY_RESOURCES.flatMap((resource) => extend(unwatched(recording, resource, now), READS_MS));
  return subtract(excusable, subtract(excusable, deaf));
}

/** From the end of its last watch to the beginning of the next. An API server that is away has none, whatever it last wrote down. */
function unwatched(recording: Recording, resource: string, now: number): readonly Span[] {
  const own = eventsOf(recording, "proxyWatch").filter((event) => event.resource === resource);
  const ends = eventsOf(recording, "api").filter(({ isUp }) => !isUp);
  const events = [...own, ...ends].sort((one, other) => one.at - other.at);
  return spansOf(events, (event) => !("isOpen" in event && event.isOpen), now);
}
