/** The state of a host, in the words of every list and page. Pure. */
import { getCondition, isConditionTrue } from "../api/conditions.ts";
import type { Host } from "../api/host.ts";
import { hasJoined } from "../api/joined.ts";
import type { StateWord } from "../console/rows.ts";

type Reported = Pick<Host, "spec" | "status">;

/** States in which the agent's own conditions are out of date. */
const AWAY: ReadonlySet<string> = new Set(["Lost", "Unreachable", "Not joined", "Stale"]);

/** The state of the agent, with the reason of an outage. The controller's conditions come first: a dead agent cannot update its own. */
function healthOf(
  { status }: Reported,
  isStale: boolean,
): StateWord & { readonly reason?: string | undefined } {
  const find = (type: string) => getCondition(status?.conditions, type);
  const [lost, reachable, ready] = [find("Lost"), find("Reachable"), find("Ready")];
  if (lost?.status === "True") return { word: "Lost", level: "bad", reason: lost.reason };
  if (reachable?.status === "False") return { word: "Unreachable", level: "bad", reason: reachable.reason };
  if (!hasJoined({ status })) return { word: "Not joined", level: "idle", reason: reachable?.reason };
  if (isStale) return { word: "Stale", level: "warn" };
  if (ready?.status === "True") return { word: "Ready", level: "ok" };
  if (ready?.status !== "False") return { word: "Unknown", level: "warn" };
  if (ready.reason === "Starting") return { word: "Starting", level: "busy" };
  return { word: "Not ready", level: "bad", reason: ready.reason };
}

/** Reasons that keep new replicas away. */
function marksOf({ spec, status }: Reported): readonly StateWord[] {
  const { conditions } = status ?? {};
  const isBlocked = getCondition(conditions, "Drained")?.reason === "DrainBlocked";
  const draining = isBlocked ? { word: "Drain blocked", level: "warn" } : { word: "Draining", level: "busy" };
  const drain = isConditionTrue(conditions, "Drained") ? { word: "Drained", level: "idle" } : draining;
  return [
    ...(spec.drain ? [drain as StateWord] : []),
    ...(spec.unschedulable ? [{ word: "Cordoned", level: "idle" } as const] : []),
    ...(isConditionTrue(conditions, "Flapping") ? [{ word: "Flapping", level: "warn" } as const] : []),
  ];
}

/** The one word that matters most. A drained host may be switched off. */
export function stateOfHost(host: Reported, isStale = false): StateWord {
  const { word, level } = healthOf(host, isStale);
  const [mark] = marksOf(host);
  const health = { word, level };
  if (mark === undefined || word === "Lost") return health;
  if (mark.word === "Drained") return mark;
  if (AWAY.has(word)) return health;
  return host.spec.drain || word === "Ready" || word === "Unknown" ? mark : health;
}

/** All of it in one line: "Unreachable (LeaseExpired), cordoned". */
export function hostText(host: Reported): string {
  const { word, reason } = healthOf(host, false);
  const marks = marksOf(host).map((mark) => mark.word.toLowerCase());
  return [reason === undefined ? word : `${word} (${reason})`, ...marks].join(", ");
}

/** "macOS 26.1", "Ubuntu 24.04.2 LTS": the version of a Linux names the distribution. */
export function osText({ status }: Pick<Host, "status">): string {
  const { os, osVersion = "" } = status?.info ?? {};
  if (os === "linux" && osVersion !== "") return osVersion;
  return `${os === "darwin" ? "macOS" : (os ?? "")} ${osVersion}`.trim();
}
