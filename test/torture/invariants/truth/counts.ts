/** A service counts its ready replicas right. */
import { type EventOf, eventsOf, type RecordedEvent, type Recording } from "../../observe/recording.ts";
import { saysReady } from "../derive/engines.ts";
import { controllerBlocked } from "../derive/outages.ts";
import { lagMs, lengthOf, type Span, subtract } from "../derive/spans.ts";
import type { Invariant } from "../invariant.ts";
import { seconds } from "./claims.ts";

const WITHIN_MS = 5_000;

export const countsOfServices: Invariant = {
  name: "counts-of-services",
  promise: "A service's readyReplicas follows its replicas and pods within 5 s.",
  check: (recording, now) => {
    const names = new Set(eventsOf(recording, "service").map(({ name }) => name));
    return [...names].flatMap((service) =>
      subtract(mismatches(recording, service, now), controllerBlocked(recording, now))
        .filter((span) => lengthOf(span) > WITHIN_MS + lagMs(recording, span))
        .map((span) => ({
          invariant: "counts-of-services",
          at: span.from + WITHIN_MS,
          message: `for ${seconds(lengthOf(span))} s service ${service} counted other ready replicas than there were`,
          about: [service],
        })),
    );
  },
};

/** Times in which the service's count differs from what its replicas say. */
function mismatches(recording: Recording, service: string, now: number): readonly Span[] {
  /** Slots by uid: two ready replicas of one slot count once, as while a new one that has crashed is not trusted yet. */
  const ready = new Map<string, string>();
  let reported: number | undefined;
  const spans: Span[] = [];
  let from: number | undefined;
  for (const event of recording) {
    if (!follow(event)) continue;
    const differs = reported !== undefined && reported !== new Set(ready.values()).size;
    if (differs) from ??= event.at;
    else if (from !== undefined) {
      spans.push({ from, to: event.at });
      from = undefined;
    }
  }
  if (from !== undefined) spans.push({ from, to: now });
  return spans;

  function follow(event: RecordedEvent): boolean {
    if ((event.type === "replica" || event.type === "pod") && event.service === service) {
      const slot = readySlot(event);
      if (slot === undefined) ready.delete(event.uid);
      else ready.set(event.uid, slot);
      return true;
    }
    if (event.type !== "service" || event.name !== service) return false;
    reported = event.isGone || event.isDeleting ? undefined : event.ready;
    return true;
  }
}

/** A pod is a slot of its own. */
function readySlot(event: EventOf<"replica" | "pod">): string | undefined {
  if (event.isDeleting) return undefined;
  if (event.type === "pod") return event.isReady && !event.isGone ? event.uid : undefined;
  return saysReady(event) ? slotOf(event.name) : undefined;
}

/** Without the hash of the revision: `chat-0` of `chat-0-946b5cf2f7`. */
function slotOf(replica: string): string {
  return replica.replace(/-[0-9a-f]+$/, "");
}
