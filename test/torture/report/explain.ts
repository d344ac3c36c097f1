/** A violation for people: what was broken, the faults in force then, and the last things that happened to whom it concerns. */
import type { Violation } from "../invariants/invariant.ts";
import { type EventOf, eventsOf, type RecordedEvent, type Recording } from "../observe/recording.ts";
import { ALL_FAULTS } from "../plan/catalog.ts";
import { describeEvent, timeOf } from "./timeline.ts";

const LAST = 15;
const LASTING = new Set<string>(
  ALL_FAULTS.filter(({ lasts }) => lasts !== undefined).map(({ kind }) => kind),
);

export function explain(violation: Violation, recording: Recording): string {
  const { invariant, at, message, about } = violation;
  const past = recording.filter((event) => event.at <= at);
  const last = past.filter((event) => concerns(event, about)).slice(-LAST);
  const longAgo = inForce(past).filter((fault) => !last.includes(fault));
  const lines = [...longAgo, ...last].map(describeEvent).filter((line) => line !== undefined);
  return [`VIOLATED ${invariant} at ${timeOf(at)}: ${message}`, ...lines.map((line) => `    ${line}`)].join(
    "\n",
  );
}

/** Injected and to be healed yet: what explains most may have begun long before. */
function inForce(past: Recording): readonly EventOf<"fault">[] {
  const faults = new Map<number, EventOf<"fault">>();
  for (const fault of eventsOf(past, "fault")) {
    if (fault.phase === "injected" && LASTING.has(fault.kind)) faults.set(fault.id, fault);
    if (fault.phase === "healed") faults.delete(fault.id);
  }
  return [...faults.values()];
}

/** Faults and outages concern every object. */
function concerns(event: RecordedEvent, about: readonly string[]): boolean {
  if (event.type === "request" && event.outcome === "answered") return false;
  if (["fault", "api", "part", "link", "address"].includes(event.type)) return true;
  const text = JSON.stringify(event);
  return about.some((name) => name !== "" && text.includes(`"${name}"`));
}
