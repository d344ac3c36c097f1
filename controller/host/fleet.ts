/**
 * Liveness of all hosts together: judges them by their signs, keeps the verdicts, and names the hosts whose
 * verdict changed.
 */
import { ANNOTATION_LOST, LOST_BY_FORCE, NAMESPACE_HOSTS } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import type { Clock } from "../../src/util/ports.ts";
import type { Watches } from "../watches/watches.ts";
import {
  type HostSign,
  judgeSingleHost,
  type LivenessPlan,
  type LivenessVerdict,
  planLiveness,
} from "./liveness.ts";
import { readSign } from "./sign.ts";
import type { LeaseSigns } from "./signs.ts";

/** Hosts expire at different times; they are checked together, with at least this long between two checks. */
const MIN_RECHECK_MS = 250;

export interface FleetLiveness {
  readonly verdictOf: (host: string) => LivenessVerdict;
  /** It was declared lost, and has renewed its Lease since that was seen. */
  readonly isDeclaredInVain: (host: string) => boolean;
  /** Judges all hosts; returns those whose verdict has changed. */
  readonly judge: () => { readonly changed: readonly string[]; readonly recheckAfterMs?: number };
}

interface Declaration {
  readonly text: string;
  readonly seenMs: number;
}

export function createFleetLiveness(watches: Watches, signs: LeaseSigns, clock: Clock): FleetLiveness {
  const last = new Map<string, LivenessVerdict["at"]>();
  const declarations = new Map<string, Declaration>();
  let interruptions = watches.leases.interruptions();
  const countedFromMs = (): number => {
    const seen = watches.leases.interruptions();
    if (seen !== interruptions) signs.resetTimeouts();
    interruptions = seen;
    return signs.countedFromMs();
  };
  const signOf = (host: Host, now: number): HostSign => {
    noteDeclaration(declarations, host, now);
    const { name } = host.metadata;
    const declaration = declarations.get(name);
    return readSign(host, {
      lease: watches.leases.get(`${NAMESPACE_HOSTS}/${name}`),
      replicas: watches.replicasOfHost.of(name),
      lastChangeMs: signs.lastChangeMs(name),
      absence: signs.absence(name),
      isDeclaredLost: declaration !== undefined && !isInVain(declaration, signs.lastChangeMs(name)),
      isForcedLost: isForced(declaration),
    });
  };
  const plan = (): LivenessPlan => {
    const fromMs = countedFromMs();
    const now = clock.monotonicMs();
    const hosts = watches.hosts.list().map((host) => signOf(host, now));
    return planLiveness({ hosts, countedFromMs: fromMs }, now);
  };
  return {
    // Each change of a host or of its replicas asks for it: the others are read only where they count.
    verdictOf: (name) => {
      const host = watches.hosts.get(name);
      if (host === undefined) return { at: "neverSeen" };
      const fromMs = countedFromMs();
      const now = clock.monotonicMs();
      const alone = judgeSingleHost(signOf(host, now), fromMs, now);
      return alone ?? plan().verdicts.get(name) ?? { at: "neverSeen" };
    },
    isDeclaredInVain: (host) => isInVain(declarations.get(host), signs.lastChangeMs(host)),
    judge: () => {
      const { verdicts, recheckAfterMs } = plan();
      const changed: string[] = [];
      for (const [host, { at }] of verdicts) {
        if (last.get(host) !== at) changed.push(host);
        last.set(host, at);
      }
      forgetOthers([last, declarations], verdicts);
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

/** Its timestamp is from another machine's clock, so the time when this controller first saw it counts. */
function noteDeclaration(declarations: Map<string, Declaration>, { metadata }: Host, now: number): void {
  const text = metadata.annotations?.[ANNOTATION_LOST];
  if (text === undefined) declarations.delete(metadata.name);
  else if (declarations.get(metadata.name)?.text !== text)
    declarations.set(metadata.name, { text, seenMs: now });
}

function isInVain(declaration: Declaration | undefined, lastChangeMs: number | undefined): boolean {
  if (declaration === undefined || lastChangeMs === undefined || isForced(declaration)) return false;
  return lastChangeMs > declaration.seenMs;
}

/** It stays until an operator removes it: whoever declares it does not believe the Lease. */
function isForced(declaration: Declaration | undefined): boolean {
  return declaration?.text.startsWith(LOST_BY_FORCE) === true;
}
