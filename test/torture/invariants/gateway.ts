/** What the gateway promises: no request is lost, no slot stays taken, usage is exact, a revoked key is refused at once. */
import {
  eventsOf,
  type GatewayRequestEvent,
  type Recording,
  type RevocationEvent,
} from "../observe/recording.ts";
import { DRAIN_SECONDS } from "../plan/catalog.ts";
import { placeOf, uidsOf } from "./derive/engines.ts";
import { harmsOf } from "./derive/harm.ts";
import { apiAway } from "./derive/outages.ts";
import { extend, lagMs, lengthOf, overlaps, type Span, spansOf } from "./derive/spans.ts";
import type { Invariant, Violation } from "./invariant.ts";
import { seconds } from "./truth/claims.ts";

/** After an outage, watches resume within this time. */
const RESUMES_MS = 5_000;
/** Envoy repeats its question for this time. */
const ASKS_MS = 4_000;
const RETURNS_WITHIN_MS = 10_000;
/** Lines of the access log that a killed Envoy had not written. */
const UNWRITTEN_MS = 1_000;
const REFUSED_WITHIN_MS = 1_000;
const PROPAGATION_MS = 3_000;
/** A request may wait for this time for a replica that was lost before. */
const MISSED_MS = 90_000;

export const gatewayRequests: Invariant = {
  name: "gateway-requests",
  promise: "No request by the gateway is lost but those on a killed engine, a cut host or a killed Envoy.",
  check: (recording, now) =>
    eventsOf(recording, "gatewayRequest")
      .filter(({ failure }) => failure !== "")
      .filter((request) => excuseOf(recording, request, now) === undefined)
      .map(({ id, service, startedAt, failure }) => ({
        invariant: "gateway-requests",
        at: startedAt,
        message: `request ${id} to ${service} by the gateway was lost: ${failure}`,
        about: [service],
      })),
};

export const gatewayReturns: Invariant = {
  name: "gateway-returns",
  promise: "A gateway or Envoy that was killed answers again within 10 s.",
  check: (recording, now) =>
    (["envoy", "gateway"] as const).flatMap((part) =>
      awaySpans(recording, part, now)
        .filter((span) => lengthOf(span) > RETURNS_WITHIN_MS + lagMs(recording, span))
        .filter((span) => !overlaps(span, extend(apiAway(recording, now), RESUMES_MS)))
        .map((span) => ({
          invariant: "gateway-returns",
          at: span.from + RETURNS_WITHIN_MS,
          message: `the ${part} was away for ${seconds(lengthOf(span))} s`,
          about: [],
        })),
    ),
};

export const gatewayAccounts: Invariant = {
  name: "gateway-accounts",
  promise: "After the load, every slot is free, and the usage has each request exactly once.",
  check: (recording, now) =>
    eventsOf(recording, "gatewayEnd").flatMap(({ at, inFlight, queued, recorded }) => {
      const violation = (message: string): Violation => ({
        invariant: "gateway-accounts",
        at,
        message,
        about: [],
      });
      const requests = eventsOf(recording, "gatewayRequest");
      const answered = requests.filter(({ failure }) => failure === "");
      const kills = awaySpans(recording, "envoy", now).map(({ from }) => ({
        from: from - UNWRITTEN_MS,
        to: from,
      }));
      const unwritten = [...kills, ...extend(diskFull(recording, now), UNWRITTEN_MS)];
      const least = answered.filter((one) => !overlaps({ from: one.at, to: one.at }, unwritten)).length;
      return [
        ...(inFlight + queued > 0 ? [violation(`${inFlight} slots are taken, ${queued} requests wait`)] : []),
        ...(recorded < least || recorded > requests.length
          ? [
              violation(
                `${recorded} requests are recorded; between ${least} and ${requests.length} were sent`,
              ),
            ]
          : []),
      ];
    }),
};

export const revokedKeys: Invariant = {
  name: "revoked-keys",
  promise: "A revoked key is refused within 1 s, and its streams end normally.",
  check: (recording, now) =>
    eventsOf(recording, "revocation").flatMap((revocation) => {
      const { at, startedAt, refusedAfterMs = Number.POSITIVE_INFINITY, streamFailure, service } = revocation;
      const span = { from: startedAt, to: at };
      const about = [service];
      const isLate = refusedAfterMs > REFUSED_WITHIN_MS + lagMs(recording, span);
      const isBlind = overlaps(span, extend(apiAway(recording, now), RESUMES_MS));
      const late = `a revoked key was refused after ${refusedAfterMs} ms`;
      const cut = `the stream of a revoked key failed: ${streamFailure}`;
      const wasCut = streamFailure !== "" && excuseOf(recording, revocation, now) === undefined;
      return [
        ...(isLate && !isBlind ? [{ invariant: "revoked-keys", at, message: late, about }] : []),
        ...(wasCut ? [{ invariant: "revoked-keys", at, message: cut, about }] : []),
      ];
    }),
};

/** Undefined for a lost request. */
function excuseOf(
  recording: Recording,
  request: GatewayRequestEvent | RevocationEvent,
  now: number,
): string | undefined {
  const { service, startedAt } = request;
  const at = request.at + lagMs(recording, { from: request.at, to: request.at });
  const inFlight = { from: startedAt, to: at };
  if (overlaps(inFlight, awaySpans(recording, "envoy", now))) return "Envoy was killed";
  const away = awaySpans(recording, "gateway", now).filter((span) => lengthOf(span) > ASKS_MS);
  if (overlaps(inFlight, away)) return "the decision service was away for longer than Envoy asks";
  const slices = eventsOf(recording, "slice").filter((slice) => slice.service === service && slice.at <= at);
  const blind = extend(blindSpans(recording, now), RESUMES_MS).filter((span) => overlaps(inFlight, [span]));
  if (slices.some((slice) => overlaps({ from: slice.at, to: slice.at }, blind)))
    return "the gateway did not hear of a change of its endpoints";
  const uids = uidsOf(recording);
  const isLeft = request.type === "gatewayRequest" && request.status === 503;
  const since = { from: startedAt - (isLeft ? MISSED_MS : PROPAGATION_MS), to: at };
  for (const slice of new Map(slices.map((one) => [placeOf(one), one])).values()) {
    const { replica, host } = slice;
    const harms = harmsOf(recording, { replica, host, uids: uids.get(replica) ?? [] }, now);
    const harm = harms.find(({ span }) => overlaps(since, [span]));
    if (harm !== undefined) return harm.why;
  }
  const outlived = slices.some(
    ({ isServing, at: left }) =>
      !isServing && startedAt <= left + PROPAGATION_MS && at >= left + DRAIN_SECONDS * 1_000,
  );
  if (outlived) return "it took longer than drainSeconds";
  const isDeleted = eventsOf(recording, "service").some(
    (one) =>
      one.name === service &&
      (one.isDeleting || one.isGone) &&
      overlaps({ from: one.at, to: one.at }, [inFlight]),
  );
  return isDeleted ? "the service was deleted" : undefined;
}

function awaySpans(recording: Recording, which: "envoy" | "gateway", now: number): readonly Span[] {
  const events = eventsOf(recording, "part").filter(({ part }) => part === which);
  const isEnd = ({ change }: (typeof events)[number]) =>
    change === "ended" || change === "endedUnasked" ? true : change === "started" ? false : undefined;
  return spansOf(events, isEnd, now);
}

/** It hears nothing of the cluster, or cannot tell Envoy. */
function blindSpans(recording: Recording, now: number): readonly Span[] {
  const events = eventsOf(recording, "part").filter(({ part }) => part === "gateway");
  const away = spansOf(events, ({ change }) => change !== "started" && change !== "resumed", now);
  return [...away, ...apiAway(recording, now), ...diskFull(recording, now)];
}

function diskFull(recording: Recording, now: number): readonly Span[] {
  const events = eventsOf(recording, "disk").filter(({ host }) => host === "gateway");
  return spansOf(events, ({ isFull }) => isFull, now);
}
