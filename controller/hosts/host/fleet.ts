/** Judges the liveness of all hosts, and reports the hosts whose verdict has changed. */
import { ANNOTATION_LOST, LOST_BY_FORCE, NAMESPACE_HOSTS } from "../../../src/api/group.ts";
import type { Host } from "../../../src/api/host.ts";
import type { Clock } from "../../../src/util/ports.ts";
import type { Watches } from "../../frame/watches/watches.ts";
import {
  type HostSign,
  judgeSingleHost,
  type LivenessPlan,
  type LivenessVerdict,
  planLiveness,
} from "./liveness.ts";
import { readSign } from "./sign.ts";
import type { LeaseSigns } from "./signs.ts";

/** Minimum time between two checks of all hosts, which expire at different times. */
const MIN_RECHECK_MS = 250;

export interface FleetLiveness {
  readonly verdictOf: (host: string) => LivenessVerdict;
  /** True if the host was declared lost, but has renewed its Lease since this controller saw the declaration. */
  readonly isDeclarationRefuted: (host: string) => boolean;
  /** Judges all hosts, and returns those whose verdict has changed. */
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
      isDeclaredLost: declaration !== undefined && !isRefuted(declaration, signs.lastChangeMs(name)),
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
    // Called for each change of a host or its replicas, so the other hosts are read only if they matter.
    verdictOf: (name) => {
      const host = watches.hosts.get(name);
      if (host === undefined) return { at: "neverSeen" };
      const fromMs = countedFromMs();
      const now = clock.monotonicMs();
      const alone = judgeSingleHost(signOf(host, now), fromMs, now);
      return alone ?? plan().verdicts.get(name) ?? { at: "neverSeen" };
    },
    isDeclarationRefuted: (host) => isRefuted(declarations.get(host), signs.lastChangeMs(host)),
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

function forgetOthers(maps: readonly Map<string, unknown>[], hosts: ReadonlyMap<string, unknown>): void {
  for (const map of maps) for (const host of map.keys()) if (!hosts.has(host)) map.delete(host);
}

/** Records when this controller first saw the declaration, whose timestamp is from another machine's clock. */
function noteDeclaration(declarations: Map<string, Declaration>, { metadata }: Host, now: number): void {
  const text = metadata.annotations?.[ANNOTATION_LOST];
  if (text === undefined) declarations.delete(metadata.name);
  else if (declarations.get(metadata.name)?.text !== text)
    declarations.set(metadata.name, { text, seenMs: now });
}

function isRefuted(declaration: Declaration | undefined, lastChangeMs: number | undefined): boolean {
  if (declaration === undefined || lastChangeMs === undefined || isForced(declaration)) return false;
  return lastChangeMs > declaration.seenMs;
}

/** True for a declaration that stays until an operator removes it, whatever the Lease says. */
function isForced(declaration: Declaration | undefined): boolean {
  return declaration?.text.startsWith(LOST_BY_FORCE) === true;
}
