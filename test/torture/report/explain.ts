/** A violation for people: what was broken, and the last things that happened to whom it concerns. */
import type { Violation } from "../invariants/invariant.ts";
import type { RecordedEvent, Recording } from "../observe/recording.ts";
import { describeEvent, timeOf } from "./timeline.ts";

const LAST = 15;

export function explain(violation: Violation, recording: Recording): string {
  const { invariant, at, message, about } = violation;
  const events = recording.filter((event) => event.at <= at && concerns(event, about)).slice(-LAST);
  const lines = events.map(describeEvent).filter((line) => line !== undefined);
  return [`VIOLATED ${invariant} at ${timeOf(at)}: ${message}`, ...lines.map((line) => `    ${line}`)].join(
    "\n",
  );
}

/** Faults and outages concern everybody. */
function concerns(event: RecordedEvent, about: readonly string[]): boolean {
  if (event.type === "request" && event.outcome === "answered") return false;
  if (["fault", "api", "part", "link", "address"].includes(event.type)) return true;
  const text = JSON.stringify(event);
  return about.some((name) => name !== "" && text.includes(`"${name}"`));
}
