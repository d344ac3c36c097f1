/** Sections that several descriptions share: conditions and Events. Pure. */
import type { Condition } from "../../src/api/conditions.ts";
import type { Performance } from "../../src/api/fields/performance.ts";
import type { KubeEvent } from "../../src/kube/objects.ts";
import { ageOf } from "../program/age.ts";
import { type Section, tableLines } from "./sections.ts";

const MAX_EVENTS = 20;

/** Undefined while idle, and without figures. */
export function performanceText(performance: Performance | undefined): string | undefined {
  if (performance === undefined) return undefined;
  const { tokensPerSecond, timeToFirstTokenSeconds, requestsInFlight } = performance;
  const figures = [
    tokensPerSecond === undefined ? undefined : `${tokensPerSecond} tokens/s`,
    timeToFirstTokenSeconds === undefined ? undefined : `${timeToFirstTokenSeconds} s to the first token`,
    requestsInFlight === undefined ? undefined : `${requestsInFlight} requests in flight`,
  ].filter((figure) => figure !== undefined);
  return figures.length === 0 ? undefined : `${figures.join(", ")} (mean over the last minute)`;
}

/** `shown` is the message of the object. A condition with the same message refers to it. */
export function conditionSection(
  conditions: readonly Condition[] | undefined,
  shown: string | undefined,
  nowMs: number,
): Section {
  const rows = (conditions ?? []).map(({ type, status, reason, message, lastTransitionTime }) => [
    type,
    status,
    ageOf(lastTransitionTime, nowMs) ?? "",
    reason,
    message !== "" && message === shown ? "as the message above" : message,
  ]);
  return { title: "Conditions", lines: tableLines(["TYPE", "STATUS", "FOR", "REASON", "MESSAGE"], rows) };
}

/** Newest last. */
export function eventSection(events: readonly KubeEvent[] | "forbidden", nowMs: number): Section {
  const title = "Events";
  if (events === "forbidden") return { title, lines: ["this credential may not list events"] };
  const sorted = [...events].sort((a, b) => Date.parse(lastOf(a)) - Date.parse(lastOf(b)));
  const rows = sorted
    .slice(-MAX_EVENTS)
    .map((event) => [
      ageOf(lastOf(event), nowMs) ?? "",
      event.type ?? "",
      event.reason ?? "",
      (event.series?.count ?? 1) > 1 ? `${event.series?.count} times` : "once",
      event.note ?? "",
    ]);
  return { title, lines: tableLines(["AGE", "TYPE", "REASON", "SEEN", "MESSAGE"], rows) };
}

function lastOf({ series, eventTime, metadata }: KubeEvent): string {
  return series?.lastObservedTime ?? eventTime ?? metadata.creationTimestamp ?? "";
}
