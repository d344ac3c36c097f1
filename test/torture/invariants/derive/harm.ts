/**
 * When a request could rightly fail, because a fault of ours had hit where it went. Narrow on purpose: one window per kind of
 * fault, as wide as its worst case, would excuse 96 % of the time of all replicas in seed 12 instead of 29 %. Pure.
 */
import {
  eventsOf,
  type LinkNow,
  type ProxyEvent,
  type Recording,
  type SliceEvent,
} from "../../observe/recording.ts";
import { livesOf, placeOf } from "./engines.ts";
import { gateAway, linkIn, proxyBlind } from "./outages.ts";
import { extend, overlaps, type Span } from "./spans.ts";

export interface Harm {
  /** In words, for the report. */
  readonly why: string;
  readonly span: Span;
  /** When every connection lost its other end. A host that is cut off then cannot say so until it is back. */
  readonly endedAt?: number;
}

/** From the withdrawal's acknowledgement until every kube-proxy has followed: its sync period, and what machines need. */
const PROPAGATION_MS = 3_000;
/** The agents' `drain.propagationMs`. */
const DRAIN_WAITS_MS = 2_000;
/** Connections that waited are retried in steps that have grown meanwhile. */
const REOPENED_MS = 5_000;

/** A gate takes its routes and sockets once its program runs. */
const LISTENS_MS = 3_000;

/** All that happened to one replica and its host. */
export function harmsOf(
  recording: Recording,
  target: { readonly replica: string; readonly uids: readonly string[]; readonly host: string },
  now: number,
): readonly Harm[] {
  const place = placeOf(target);
  const slices = eventsOf(recording, "slice").filter((slice) => placeOf(slice) === place);
  const followed = proxyFollows(recording, now);
  return [
    ...engineHarms(recording, target.uids, slices, followed, now),
    ...gateHarms(recording, target.host, now),
    ...linkHarms(recording, target.host, now),
    ...addressHarms(recording, target.host, slices, followed, now),
    ...lateProxies(slices, followed),
  ];
}

function engineHarms(
  recording: Recording,
  uids: readonly string[],
  slices: readonly SliceEvent[],
  followed: Follows,
  now: number,
): readonly Harm[] {
  const lives = livesOf(recording, now).filter(({ uid }) => uids.includes(uid));
  return lives.flatMap((life) => {
    const from = life.wasKilled ? [life.to] : [];
    const killed = from.map((at) => ({
      why: `engine ${life.pid} was killed`,
      span: { from: at, to: followed(withdrawnAfter(slices, at, now), endpointAt(slices, at)) },
      endedAt: at,
    }));
    const frozen = life.paused.map((span) => ({
      why: `engine ${life.pid} was frozen`,
      // What waited in a frozen engine ends with it, long after its withdrawal.
      span: {
        from: span.from,
        to: Math.max(span.to + REOPENED_MS, followed(span.to, endpointAt(slices, span.from))),
      },
    }));
    return [...killed, ...frozen];
  });
}

/** From its kill until another one has started, and listens. */
function gateHarms(recording: Recording, host: string, now: number): readonly Harm[] {
  const why = `the gate of ${host} was killed`;
  return extend(gateAway(recording, host, now), LISTENS_MS).map((span) => ({
    why,
    span,
    endedAt: span.from,
  }));
}

function linkHarms(recording: Recording, host: string, now: number): readonly Harm[] {
  const harm = (state: LinkNow, why: string): Harm[] =>
    linkIn(recording, host, [state], now).map(({ from, to }) => ({
      why,
      span: { from, to: to + REOPENED_MS },
    }));
  // Connection tracking takes what comes again after a loss for a stranger's, and the client resets it.
  return [...harm("cut", `${host} was cut off`), ...harm("lossy", `${host} lost packets`)];
}

/** Until its endpoint is at the new address, or withdrawn. */
function addressHarms(
  recording: Recording,
  host: string,
  slices: readonly SliceEvent[],
  followed: Follows,
  now: number,
): readonly Harm[] {
  return eventsOf(recording, "address")
    .filter((event) => event.host === host)
    .map(({ at, from, to }) => {
      const left = slices.find(
        (slice) => slice.at > at && (!slice.isServing || slice.endpoint?.startsWith(`${from}:`) !== true),
      );
      const why = `${host} moved from ${from} to ${to}`;
      return { why, span: { from: at, to: followed(left?.at ?? now, endpointAt(slices, at)) } };
    });
}

/** A drain waits a fixed time for kube-proxies; one that is cut off from the API server keeps sending. */
function lateProxies(slices: readonly SliceEvent[], followed: Follows): readonly Harm[] {
  return slices.flatMap(({ at, isServing }) => {
    const to = followed(at, endpointAt(slices, at));
    if (isServing || to <= at + PROPAGATION_MS) return [];
    const why = "kube-proxy could not hear of a withdrawal: the API server was away";
    return [{ why, span: { from: at, to } }];
  });
}

/** When kube-proxy sends nothing more to an endpoint that was withdrawn then. */
type Follows = (withdrawnAt: number, endpoint: string | undefined) => number;

function proxyFollows(recording: Recording, now: number): Follows {
  const blind = proxyBlind(recording, now);
  const rules = eventsOf(recording, "proxy");
  return (withdrawnAt, endpoint) => {
    const due = withdrawnAt + PROPAGATION_MS;
    const deaf = blind.find((span) => overlaps({ from: withdrawnAt, to: due }, [span]));
    if (deaf === undefined) return due;
    const hasIt = ({ endpoints }: ProxyEvent) => endpoint !== undefined && endpoints.includes(endpoint);
    // A Service that is recreated gets the rules of the slices that kube-proxy last heard of.
    const again = rules.findLast((event) => event.at >= withdrawnAt && event.at <= deaf.to && hasIt(event));
    const without = rules.find((event) => event.at >= (again?.at ?? withdrawnAt) && !hasIt(event));
    const heardAt = Math.min(without?.at ?? now, deaf.to);
    // Heard within the time that a drain waits: an earlier outage then explains nothing.
    return heardAt <= withdrawnAt + DRAIN_WAITS_MS ? due : heardAt + PROPAGATION_MS;
  };
}

function endpointAt(slices: readonly SliceEvent[], at: number): string | undefined {
  return slices.findLast((slice) => slice.at <= at && slice.endpoint !== undefined)?.endpoint;
}

function withdrawnAfter(slices: readonly SliceEvent[], at: number, now: number): number {
  const before = slices.filter((slice) => slice.at <= at).at(-1);
  if (before?.isServing !== true) return at;
  return slices.find((slice) => slice.at > at && !slice.isServing)?.at ?? now;
}
