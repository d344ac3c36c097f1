/** Liveness of all hosts together: watches signs, judges, remembers, and names the hosts whose verdict changed. */
import { getCondition, isConditionTrue } from "../../src/api/conditions.ts";
import { ANNOTATION_LOST } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import type { Lease } from "../../src/kube/objects.ts";
import type { Clock } from "../../src/ports.ts";
import type { Caches } from "../cache/caches.ts";
import { FLAPPING, LOST, REACHABLE } from "./conditions.ts";
import { type FlapBook, type Flapping, noteVerdict, openFlapBook, readFlapping } from "./flapping.ts";
import { type HostSign, type LivenessPlan, planLiveness, type Verdict } from "./liveness.ts";
import type { LeaseMark, LeaseSigns } from "./signs.ts";

/** Many hosts expire at many moments; they are looked at together, at most so often. */
const MIN_RECHECK_MS = 250;

export interface Fleet {
  readonly verdictOf: (host: string) => Verdict;
  /** Undefined where the host is steady. */
  readonly flappingOf: (host: string) => FlappingNow | undefined;
  /** It was declared lost, and has renewed its Lease since that was seen. */
  readonly isDeclaredInVain: (host: string) => boolean;
  /** Judges all; returns the hosts whose verdict is another than last time. */
  readonly judge: () => { readonly changed: readonly string[]; readonly recheckAfterMs?: number };
}

export interface FlappingNow extends Flapping {
  /** The same time on the clock of the wall; said once, so that a condition does not change with every pass. */
  readonly untilIso: string;
}

interface Declaration {
  readonly text: string;
  readonly seenMs: number;
}

export function createFleet(caches: Caches, signs: LeaseSigns, clock: Clock): Fleet {
  const last = new Map<string, Verdict["at"]>();
  const flaps = new Map<string, FlapBook>();
  const said = new Map<string, FlappingNow>();
  const declarations = new Map<string, Declaration>();
  let interruptions = caches.leases.interruptions();
  const plan = (): LivenessPlan => {
    const seen = caches.leases.interruptions();
    if (seen !== interruptions) signs.countAfresh();
    interruptions = seen;
    const now = clock.monotonicMs();
    const hosts = caches.hosts.list();
    for (const host of hosts) noteDeclaration(declarations, host, now);
    const input = { hosts: readSigns(caches, signs, declarations), countedFromMs: signs.countedFromMs() };
    const judged = planLiveness(input, now);
    for (const host of hosts) noteFlap(flaps, host, judged.verdicts.get(host.metadata.name), now);
    return judged;
  };
  return {
    verdictOf: (host) => plan().verdicts.get(host) ?? { at: "neverSeen" },
    flappingOf: (host) => {
      const flapping = readFlapping(flaps.get(host) ?? { changesMs: [] }, clock.monotonicMs());
      if (flapping === undefined) return undefined;
      const before = said.get(host);
      if (before?.untilMs === flapping.untilMs) return before;
      const now = { ...flapping, untilIso: wallIso(clock, flapping.untilMs) };
      said.set(host, now);
      return now;
    },
    isDeclaredInVain: (host) => isInVain(declarations.get(host), signs.lastChangeMs(host)),
    judge: () => {
      const { verdicts, recheckAfterMs } = plan();
      const changed: string[] = [];
      for (const [host, { at }] of verdicts) {
        if (last.get(host) !== at) changed.push(host);
        last.set(host, at);
      }
      forgetOthers([last, flaps, said, declarations], verdicts);
      if (recheckAfterMs === undefined) return { changed };
      return { changed, recheckAfterMs: Math.max(MIN_RECHECK_MS, recheckAfterMs) };
    },
  };
}

function forgetOthers(books: readonly Map<string, unknown>[], hosts: ReadonlyMap<string, unknown>): void {
  for (const book of books) {
    for (const host of book.keys()) if (!hosts.has(host)) book.delete(host);
  }
}

/** What of a Lease shows that its host lives. */
export function markOf(lease: Lease): LeaseMark {
  return { holder: lease.spec?.holderIdentity, renewTime: lease.spec?.renewTime };
}

function wallIso(clock: Clock, monotonicMs: number): string {
  const wallMs = clock.nowMs() + monotonicMs - clock.monotonicMs();
  return new Date(Math.ceil(wallMs / 1000) * 1000).toISOString().replace(/\.\d{3}Z$/, "Z");
}

/** The time in it is another machine's, so what counts is when it was first seen here. */
function noteDeclaration(declarations: Map<string, Declaration>, { metadata }: Host, now: number): void {
  const text = metadata.annotations?.[ANNOTATION_LOST];
  if (text === undefined) declarations.delete(metadata.name);
  else if (declarations.get(metadata.name)?.text !== text)
    declarations.set(metadata.name, { text, seenMs: now });
}

function isInVain(declaration: Declaration | undefined, lastChangeMs: number | undefined): boolean {
  return declaration !== undefined && lastChangeMs !== undefined && lastChangeMs > declaration.seenMs;
}

function noteFlap(
  flaps: Map<string, FlapBook>,
  { metadata: { name }, status }: Host,
  verdict: Verdict | undefined,
  now: number,
): void {
  if (verdict === undefined) return;
  const reachable = getCondition(status?.conditions, REACHABLE)?.status;
  const wasUp = reachable === "True" ? true : reachable === "False" ? false : undefined;
  const book = flaps.get(name) ?? openFlapBook(wasUp, isConditionTrue(status?.conditions, FLAPPING), now);
  flaps.set(name, noteVerdict(book, verdict, now));
}

function readSigns(
  caches: Caches,
  signs: LeaseSigns,
  declarations: ReadonlyMap<string, Declaration>,
): HostSign[] {
  return caches.hosts.list().map(({ metadata, status }) => {
    const limits = caches.replicasOfHost.of(metadata.name).map(({ spec }) => spec.hostLostSeconds * 1000);
    const declaration = declarations.get(metadata.name);
    const lastChangeMs = signs.lastChangeMs(metadata.name);
    return {
      name: metadata.name,
      lastChangeMs,
      reachable: getCondition(status?.conditions, REACHABLE)?.status,
      isLost: isConditionTrue(status?.conditions, LOST),
      lostAfterMs: limits.length === 0 ? undefined : Math.min(...limits),
      isDeclaredLost: declaration !== undefined && !isInVain(declaration, lastChangeMs),
    };
  });
}
