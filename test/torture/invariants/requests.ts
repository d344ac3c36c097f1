/** No request is lost but those that were where a fault struck, and what docs/reliability.md says of idle connections. */
import { eventsOf, type Recording, type RequestEvent, type SliceEvent } from "../observe/recording.ts";
import { DRAIN_SECONDS } from "../plan/catalog.ts";
import { placeOf, uidsOf } from "./derive/engines.ts";
import { type Harm, harmsOf } from "./derive/harm.ts";
import { leaseOver, proxyBlind } from "./derive/outages.ts";
import { lagMs, overlaps, type Span } from "./derive/spans.ts";
import type { Invariant } from "./invariant.ts";

export interface Judged {
  readonly request: RequestEvent;
  /** Why it could rightly fail; undefined for a lost request. */
  readonly excuse: string | undefined;
  readonly replica?: string;
}

export const requests: Invariant = {
  name: "requests",
  promise: "No request is lost but those in flight on a killed engine or a cut host.",
  check: (recording, now) =>
    judgeFailures(recording, now)
      .filter(({ excuse }) => excuse === undefined)
      .map(({ request, replica }) => ({
        invariant: "requests",
        at: request.startedAt,
        message: `request ${request.id} to ${request.service} was lost: ${request.failure} (${wordsFor(request, replica)})`,
        about: [request.service, ...(replica === undefined ? [] : [replica])],
      })),
};

function wordsFor(request: RequestEvent, replica: string | undefined): string {
  const where =
    request.endpoint === undefined
      ? "no endpoint was chosen"
      : `sent to ${request.endpoint}, replica ${replica ?? "unknown"}`;
  const how = [request.isStreamed ? "streamed" : "plain", request.isKeptAlive ? "kept alive" : "fresh"];
  const idle = request.idleMs === undefined ? "" : `, connection idle for ${request.idleMs} ms`;
  return `${how.join(", ")}; ${where}${idle}`;
}

/** Every request that failed, with what excuses it. */
export function judgeFailures(recording: Recording, now: number): readonly Judged[] {
  const slices = eventsOf(recording, "slice");
  const uids = uidsOf(recording);
  const harms = new Map<string, readonly Harm[]>();
  const harmsFor = (slice: SliceEvent): readonly Harm[] => {
    const { replica, host } = slice;
    const key = placeOf(slice);
    const known = harms.get(key) ?? harmsOf(recording, { replica, host, uids: uids.get(replica) ?? [] }, now);
    harms.set(key, known);
    return known;
  };
  const judge = (request: RequestEvent): Omit<Judged, "request"> => {
    const without = () => {
      const isKnown = knownToProxy(recording, request, now);
      const over = ({ host }: SliceEvent): readonly Span[] => leaseOver(recording, host, now);
      return excuseWithout(request, slices, harmsFor, { isKnown, leaseOver: over });
    };
    if (request.endpoint === undefined) return { excuse: without() };
    const slice = sliceOf(request, slices);
    if (slice === undefined) return { excuse: undefined };
    const excuse = excuseAt(request, slice, slices, harmsFor(slice));
    // Where no pod is ready, kube-proxy sends to one that is being deleted.
    const isLeaving = eventsOf(recording, "pod").some(
      ({ name, isDeleting, at }) => name === slice.replica && isDeleting && at <= request.startedAt,
    );
    return { replica: slice.replica, excuse: excuse ?? (isLeaving ? without() : undefined) };
  };
  return eventsOf(recording, "request")
    .filter(({ outcome }) => outcome === "failed")
    .map((request) => ({ request, ...judge(allowingForLag(request, recording)) }));
}

/** What the harness saw after the request had failed, because it was late itself, may have been so before. */
function allowingForLag(request: RequestEvent, recording: Recording): RequestEvent {
  const { at } = request;
  return { ...request, at: at + lagMs(recording, { from: at, to: at }) };
}

/** The newest that had named the endpoint by the end of the request. */
function sliceOf(
  { service, endpoint, at }: RequestEvent,
  slices: readonly SliceEvent[],
): SliceEvent | undefined {
  return slices.findLast(
    (slice) => slice.service === service && slice.endpoint === endpoint && slice.at <= at,
  );
}

/** The engine's quiet time before it is stopped: a connection that was idle for longer may be closed under its client. */
const QUIET_MS = 250;

function excuseAt(
  request: RequestEvent,
  slice: SliceEvent,
  slices: readonly SliceEvent[],
  harms: readonly Harm[],
): string | undefined {
  const inFlight = { from: request.startedAt, to: request.at };
  const harm = harms.find(({ span }) => overlaps(inFlight, [span]));
  if (harm !== undefined) return harm.why;
  const { ageMs, firstByteAt } = request;
  const before = harms.find(
    ({ endedAt }) => endedAt !== undefined && ageMs !== undefined && isWithin(endedAt, request, ageMs),
  );
  if (before !== undefined && firstByteAt === undefined)
    return `the connection was kept alive from before ${before.why}`;
  const isWithdrawn = slices.some(
    (other) => other.replica === slice.replica && !other.isServing && other.at <= request.at,
  );
  const wasIdle = request.idleMs !== undefined && request.idleMs >= QUIET_MS;
  if (isWithdrawn && wasIdle && request.firstByteAt === undefined) {
    return "the connection was kept alive, idle, while its engine was drained";
  }
  if (outlivedDrain(request, slice, slices))
    return `its connection was busy for longer than drainSeconds, ${DRAIN_SECONDS}`;
  return undefined;
}

/**
 * In flight after the whole drain, itself or others on its connection ever since its engine was withdrawn: a request takes that
 * long only on an overloaded machine, and kube-proxy does not move open connections.
 */
function outlivedDrain(request: RequestEvent, slice: SliceEvent, slices: readonly SliceEvent[]): boolean {
  const left = withdrawnAt(
    slice,
    slices.filter(({ at }) => at <= request.at),
  );
  if (left === undefined) return false;
  const openedAt = request.startedAt - (request.ageMs ?? 0);
  return openedAt <= left + PROPAGATION_MS && request.at >= left + DRAIN_SECONDS * 1_000;
}

/** While the connection of that age was open. */
function isWithin(time: number, { startedAt, at }: RequestEvent, ageMs: number): boolean {
  return time > startedAt - ageMs && time <= at;
}

/** False only where an outage explains that its rules, as they were then, do not have the endpoint. */
function knownToProxy(recording: Recording, { startedAt: from, at: to }: RequestEvent, now: number) {
  const rules = eventsOf(recording, "proxy").findLast((event) => event.at <= to);
  const isBlind = overlaps({ from, to }, proxyBlind(recording, now));
  return ({ endpoint = "" }: SliceEvent): boolean =>
    rules === undefined || !isBlind || rules.endpoints.includes(endpoint);
}

/** How long an engine that was lost may rightly be missing from a service. */
const MISSED_MS = 90_000;
const PROPAGATION_MS = 3_000;

interface Seen {
  readonly isKnown: (slice: SliceEvent) => boolean;
  readonly leaseOver: (slice: SliceEvent) => readonly Span[];
}

/** Refused by kube-proxy: rightly so while every endpoint of the service was harmed, or its host silent for too long. */
function excuseWithout(
  request: RequestEvent,
  slices: readonly SliceEvent[],
  harmsFor: (slice: SliceEvent) => readonly Harm[],
  { isKnown, leaseOver }: Seen,
): string | undefined {
  const known = slices.filter(({ service, at }) => service === request.service && at <= request.at);
  const newest = new Map(known.map((slice) => [slice.replica, slice]));
  const at = request.startedAt;
  const whole = [...newest.values()].some(
    (slice) =>
      slice.isServing &&
      slice.at <= at - PROPAGATION_MS &&
      isKnown(slice) &&
      !harmsFor(slice).some(({ span }) => overlaps({ from: at, to: request.at }, [span])),
  );
  if (whole) return undefined;
  if ([...newest.values()].some((slice) => slice.isServing && !isKnown(slice))) {
    return "kube-proxy had not heard of the endpoint: the API server was away";
  }
  const lately = { from: at - MISSED_MS, to: request.at };
  for (const slice of newest.values()) {
    const harm = harmsFor(slice).find(({ span }) => overlaps(lately, [span]));
    if (harm !== undefined) return `no endpoint was left: ${harm.why}`;
    const silences = leaseOver(slice).filter((span) => overlaps(lately, [span]));
    const left = withdrawnAt(slice, known);
    if (left !== undefined && overlaps({ from: left, to: left }, silences)) {
      return `no endpoint was left: ${slice.host} was silent for longer than its Lease`;
    }
  }
  return undefined;
}

/** When it last stopped serving; undefined while it serves, or where it never did. */
function withdrawnAt(slice: SliceEvent, known: readonly SliceEvent[]): number | undefined {
  const own = known.filter((other) => placeOf(other) === placeOf(slice));
  const served = own.findLastIndex(({ isServing }) => isServing);
  return served === -1 ? undefined : own[served + 1]?.at;
}
