/** The lives of engines and what was claimed of them. Pure. */
import { type EngineEvent, eventsOf, type Recording } from "../../observe/recording.ts";
import { type Span, spansOf } from "./spans.ts";

export interface Life extends Span {
  readonly uid: string;
  readonly host: string;
  readonly pid: number;
  /** Killed by an injected fault; otherwise its agent stopped it, or it exited on its own. */
  readonly wasKilled: boolean;
  /** Frozen by an injected fault. */
  readonly paused: readonly Span[];
}

/** One life for each engine process, in the order of their beginnings; a replica may come back to a daemon that it has left. */
export function livesOf(recording: Recording, now: number): readonly Life[] {
  const byProcess = grouped(eventsOf(recording, "engine"), ({ uid, pid }) => `${uid}/${pid}`);
  return byProcess
    .flatMap(([, all]) => livesIn(all))
    .flatMap((events) => {
      const [first] = events;
      if (first === undefined) return [];
      const end = events.find(({ change }) => change === "killed" || change === "gone");
      const to = end?.at ?? now;
      return [
        {
          uid: first.uid,
          host: first.host,
          pid: first.pid,
          from: first.at,
          to,
          wasKilled: end?.change === "killed",
          paused: pausesOf(events, to),
        },
      ];
    });
}

function livesIn(events: readonly EngineEvent[]): readonly (readonly EngineEvent[])[] {
  const begins = events.flatMap(({ change }, index) => (change === "appeared" && index > 0 ? [index] : []));
  return [0, ...begins].map((from, index) => events.slice(from, begins[index]));
}

function pausesOf(events: readonly EngineEvent[], to: number): readonly Span[] {
  const inLife = events.filter(({ at }) => at <= to);
  return spansOf(
    inLife,
    ({ change }) => (change === "paused" ? true : change === "resumed" ? false : undefined),
    to,
  );
}

export interface Claimed {
  readonly replica: string;
  /** A name is free again once its replica is gone: a later one has another uid. */
  readonly uids: readonly string[];
  readonly service: string;
  readonly host: string;
  readonly spans: readonly Span[];
}

/** Every uid that a replica or pod of a name has had. */
export function uidsOf(recording: Recording): ReadonlyMap<string, readonly string[]> {
  const events = [...eventsOf(recording, "replica"), ...eventsOf(recording, "pod")];
  const named = grouped(events, ({ name }) => name);
  return new Map(named.map(([name, events]) => [name, [...new Set(events.map(({ uid }) => uid))]]));
}

/** A revision that comes back gives its replica the same name again, maybe on another host. */
export function placeOf({ replica, host }: { readonly replica: string; readonly host: string }): string {
  return `${replica} on ${host}`;
}

/** When each replica's endpoint was one that kube-proxy sends new connections to. */
export function servingOf(recording: Recording, now: number): readonly Claimed[] {
  const uids = uidsOf(recording);
  return grouped(eventsOf(recording, "slice"), placeOf).flatMap(([, events]) => {
    const [first] = events;
    if (first === undefined) return [];
    const { replica, service, host } = first;
    const spans = spansOf(events, ({ isServing }) => isServing, now);
    return [{ replica, service, host, spans, uids: uids.get(replica) ?? [] }];
  });
}

/** When each replica said that it was Ready, with its host reachable. */
export function readyOf(recording: Recording, now: number): readonly Claimed[] {
  return grouped(eventsOf(recording, "replica"), ({ uid }) => uid).map(([uid, events]) => ({
    uids: [uid],
    replica: events[0]?.name ?? "",
    service: events[0]?.service ?? "",
    host: events[0]?.host ?? "",
    spans: spansOf(events, saysReady, now),
  }));
}

export function saysReady(event: {
  readonly phase: string;
  readonly hostReachable: string;
  readonly isGone: boolean;
}): boolean {
  return event.phase === "Ready" && event.hostReachable === "True" && !event.isGone;
}

export function grouped<T>(events: readonly T[], key: (event: T) => string): readonly [string, T[]][] {
  const groups = new Map<string, T[]>();
  for (const event of events) {
    const group = groups.get(key(event)) ?? [];
    groups.set(key(event), group);
    group.push(event);
  }
  return [...groups];
}
