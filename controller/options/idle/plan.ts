/** Plans whether the replicas of a service with spec.idle stay loaded. Pure: the time is an argument, and waits are data. */
import type { ErrorCode } from "../../../src/api/errors.ts";
import type { IdleSettings, IdleStatus } from "../../../src/api/inference-service/idle.ts";
import type { MemoryOffer } from "../../../src/capacity/placement/claims.ts";
import { isoSeconds } from "../../../src/util/iso-seconds.ts";
import type { Moment } from "../../../src/util/moment.ts";
import type { Use } from "../../frame/service/idle-report.ts";
import { type WindowState, windowState } from "./windows.ts";

/** What is known of a service from earlier passes. Durations are on the monotonic clock of this controller. */
export interface IdleRecord {
  readonly state: IdleStatus["state"];
  /** Wall time at which the state was entered. */
  readonly sinceMs: number;
  /** Last demand or use; the start of this controller if there was none since. */
  readonly usedMs: number;
  /** Wall time of the last known request. */
  readonly requestAtMs: number | undefined;
  /** renewTime of the demand Lease that was taken into account. */
  readonly mark: string | undefined;
  /** Time since which a replica serves. */
  readonly servingSinceMs: number | undefined;
  /** Wall time since which requests wait and no replica has a machine. */
  readonly queuedSinceMs?: number | undefined;
  /** Hosts that the replicas were unloaded from. */
  readonly hosts: readonly string[];
  /** Service for whose memory the replicas were unloaded. */
  readonly displacedBy?: string | undefined;
}

export interface IdleInput {
  readonly settings: IdleSettings;
  readonly before: IdleRecord | undefined;
  /** The status that an earlier leader may have written; read only without a record. */
  readonly written: IdleStatus | undefined;
  /** renewTime of the demand Lease now. */
  readonly mark: string | undefined;
  readonly use: Use;
  readonly isServing: boolean;
  /** True if a replica that does not serve yet has a machine. */
  readonly isStarting: boolean;
  readonly hosts: readonly string[];
  /** Service for which the scheduler wants to unload a replica; it takes turns if it is idle and requests wait for it. */
  readonly displacedBy: { readonly service: string; readonly takesTurns: boolean } | undefined;
  /** Wall time since which the first of the other services with spec.idle waits for a machine. */
  readonly othersQueuedSinceMs: number | undefined;
  readonly now: Moment;
}

export interface IdlePlan {
  readonly record: IdleRecord;
  readonly code: ErrorCode;
  readonly message: string;
  readonly offer?: MemoryOffer | undefined;
  readonly recheckAfterMs?: number | undefined;
}

const MINUTE_MS = 60_000;
/** Time within which agents and the controller report a request that arrives at an idle engine. */
const USE_REPORT_MS = 45_000;
/** Gateways and clients hold a request no longer than this, so a queued service without newer demand is not wanted any more. */
const HELD_MS = 10 * MINUTE_MS;

export function planIdle(input: IdleInput): IdlePlan {
  const { settings, mark, now } = input;
  const record = input.before ?? firstRecord(input);
  const hasDemand = mark !== undefined && mark !== record.mark;
  const window = windowState(settings.keepWarm ?? [], now.wallMs);
  const current = hasDemand ? withRequest(record, now, mark) : record;
  // A service that is new or has lost its host waits for a machine as an idle one does.
  const isWithoutMachine = current.state === "Awake" && !input.isServing && !input.isStarting;
  if (hasDemand && isWithoutMachine) return planLoaded(input, waking(current, now), window);
  if (current.state !== "Idle") return planLoaded(input, current, window);
  if (hasDemand || window.isOpen) return planLoaded(input, waking(current, now), window);
  return idle(current, settings, window, now);
}

/** Notes a request: `mark` is that of its demand, or that of the record if the replicas have reported it. */
export function withRequest(record: IdleRecord, now: Moment, mark = record.mark): IdleRecord {
  return { ...record, mark, usedMs: now.monotonicMs, requestAtMs: now.wallMs };
}

export function idleStatusOf({ state, sinceMs, requestAtMs, mark, hosts }: IdleRecord): IdleStatus {
  return {
    state,
    since: isoSeconds(sinceMs),
    lastRequestTime:
      requestAtMs === undefined ? undefined : isoSeconds(requestAtMs - (requestAtMs % MINUTE_MS)),
    // Every renewal changes it, and only an idle service has to notice one after a change of leader.
    observedDemand: state === "Idle" ? mark : undefined,
    hosts: state === "Awake" || hosts.length === 0 ? undefined : [...hosts],
  };
}

/** After a start or a change of leader: only demand that an idle service has not taken into account counts. */
function firstRecord({ written, mark, now }: IdleInput): IdleRecord {
  const { state = "Awake", since, lastRequestTime, observedDemand, hosts = [] } = written ?? {};
  return {
    state,
    sinceMs: since === undefined ? now.wallMs : Date.parse(since),
    usedMs: now.monotonicMs,
    requestAtMs: lastRequestTime === undefined ? undefined : Date.parse(lastRequestTime),
    mark: state === "Idle" ? observedDemand : mark,
    servingSinceMs: undefined,
    hosts,
  };
}

function waking(record: IdleRecord, { wallMs, monotonicMs }: Moment): IdleRecord {
  return { ...record, state: "Waking", sinceMs: wallMs, usedMs: monotonicMs, displacedBy: undefined };
}

function idle(record: IdleRecord, settings: IdleSettings, window: WindowState, now: Moment): IdlePlan {
  const { displacedBy } = record;
  const why =
    displacedBy === undefined
      ? `no request for ${settings.afterMinutes} min`
      : `unloaded for ${displacedBy}, which needs the memory`;
  return {
    record,
    code: displacedBy === undefined ? "Idle" : "IdleForOthers",
    message: `${why}; the next request through the gateway loads the replicas`,
    recheckAfterMs: window.changesAtMs === undefined ? undefined : window.changesAtMs - now.wallMs,
  };
}

function planLoaded(input: IdleInput, record: IdleRecord, window: WindowState): IdlePlan {
  const { settings, use, displacedBy, now } = input;
  const current = { ...loaded(record, input), displacedBy: undefined };
  const hold = holdOf(current, input, window);
  if (hold !== undefined) return { record: current, ...hold };
  const times = thresholds(current, input);
  const { idleAtMs, unusedAtMs, turnEndsAtMs } = times;
  const isUnused = use === "quiet" && now.monotonicMs >= unusedAtMs;
  const hasTurnEnded = now.monotonicMs >= turnEndsAtMs;
  const isDisplaced = displacedBy !== undefined && (isUnused || (hasTurnEnded && displacedBy.takesTurns));
  if (isDisplaced || now.monotonicMs >= idleAtMs) {
    const unloaded: IdleRecord = {
      ...current,
      state: "Idle",
      sinceMs: now.wallMs,
      servingSinceMs: undefined,
      queuedSinceMs: undefined,
      hosts: input.hosts.length > 0 ? input.hosts : current.hosts,
      displacedBy: isDisplaced ? displacedBy.service : undefined,
    };
    return idle(unloaded, settings, window, now);
  }
  const waits = Object.values(times)
    .map((at) => at - now.monotonicMs)
    .filter((ms) => ms > 0);
  return {
    record: current,
    ...reasonOf(current, settings, QUEUED),
    offer: offerOf(current, isUnused, hasTurnEnded),
    recheckAfterMs: Number.isFinite(Math.min(...waits)) ? Math.min(...waits) : undefined,
  };
}

function offerOf({ usedMs }: IdleRecord, isUnused: boolean, hasTurnEnded: boolean): MemoryOffer | undefined {
  if (isUnused) return { to: "all", unusedSinceMs: usedMs };
  return hasTurnEnded ? { to: "turns" } : undefined;
}

/** A service serves as soon as one replica does. Its time without requests begins then, because it was loaded for one. */
function loaded(record: IdleRecord, { use, isServing, isStarting, now }: IdleInput): IdleRecord {
  const isQueued = record.state === "Waking" && !isStarting;
  const queuedSinceMs = isQueued ? (record.queuedSinceMs ?? now.wallMs) : undefined;
  if (!isServing) return { ...record, queuedSinceMs, servingSinceMs: undefined };
  const isNew = record.servingSinceMs === undefined;
  const awake: IdleRecord = {
    ...record,
    state: "Awake",
    sinceMs: record.state === "Awake" ? record.sinceMs : now.wallMs,
    usedMs: isNew ? now.monotonicMs : record.usedMs,
    servingSinceMs: record.servingSinceMs ?? now.monotonicMs,
    queuedSinceMs: undefined,
  };
  if (use === "busy") return withRequest(awake, now);
  return use === "unknown" ? { ...awake, usedMs: now.monotonicMs } : awake;
}

/** Why a loaded service stays loaded however long it has no requests. */
function holdOf(
  record: IdleRecord,
  { settings, use, isServing, isStarting, now }: IdleInput,
  { isOpen, changesAtMs, unknownZone }: WindowState,
): Omit<IdlePlan, "record"> | undefined {
  if (isOpen) {
    const recheckAfterMs = changesAtMs === undefined ? undefined : changesAtMs - now.wallMs;
    const message =
      unknownZone === undefined
        ? "a window of spec.idle.keepWarm is open"
        : `the controller does not know the time zone ${unknownZone} of spec.idle.keepWarm`;
    return { code: record.state === "Waking" ? "Waking" : "KeptWarm", message, recheckAfterMs };
  }
  // Pods are read at an interval, and a pass follows only if their requests have changed.
  if (isServing && use === "unknown")
    return {
      code: "UseUnknown",
      message: "the requests in flight of a replica are unknown",
      recheckAfterMs: MINUTE_MS,
    };
  // A replica that fails stays, so that its failure can be seen.
  return !isServing && isStarting ? reasonOf(record, settings, STARTING) : undefined;
}

const STARTING = "a request waits while the replicas start";
const QUEUED =
  "a request waits for the replicas, which start once a machine has room; services with spec.idle are unloaded for them if they have no requests, or once their turn has finished";

function reasonOf(
  { state }: IdleRecord,
  { afterMinutes }: IdleSettings,
  waking: string,
): Pick<IdlePlan, "code" | "message"> {
  if (state === "Waking") return { code: "Waking", message: waking };
  return { code: "Loaded", message: `unloaded after ${afterMinutes} min without requests` };
}

interface Thresholds {
  /** Time from which the service is idle without further use. */
  readonly idleAtMs: number;
  /** Time from which another service may have its memory; infinite while no replica serves. */
  readonly unusedAtMs: number;
  /** Time from which a waiting service with spec.idle may have its memory, used or not. */
  readonly turnEndsAtMs: number;
}

function thresholds(
  { usedMs, servingSinceMs }: IdleRecord,
  { settings, isServing, othersQueuedSinceMs, now }: IdleInput,
): Thresholds {
  const afterMs = settings.afterMinutes * MINUTE_MS;
  const never = Number.POSITIVE_INFINITY;
  if (!isServing || servingSinceMs === undefined)
    return { idleAtMs: usedMs + Math.max(afterMs, HELD_MS), unusedAtMs: never, turnEndsAtMs: never };
  const residencyMs = settings.minimumResidencySeconds * 1_000;
  const residentAtMs = servingSinceMs + residencyMs;
  const waitedMs = othersQueuedSinceMs === undefined ? 0 : now.wallMs - othersQueuedSinceMs;
  return {
    // A service that has just begun to wait does not interrupt one that was loaded for hours.
    turnEndsAtMs:
      othersQueuedSinceMs === undefined
        ? never
        : Math.max(residentAtMs, now.monotonicMs + residencyMs - waitedMs),
    idleAtMs: Math.max(usedMs + afterMs, residentAtMs),
    unusedAtMs: Math.max(usedMs + USE_REPORT_MS, residentAtMs),
  };
}
