/** Event objects of events.k8s.io/v1 within the server's limits. */
import { truncateBytes } from "../../util/text.ts";
import { type KubeEvent, microTime } from "../objects.ts";
import type { JsonPatchOp } from "../types.ts";
import type { Series } from "./series.ts";

export interface Reporter {
  readonly reportingController: string;
  readonly reportingInstance: string;
}

const MAX_NOTE = 1_024;
const MAX_WORD = 128;
const MAX_NAME_STEM = 200;

/** Events of cluster-scoped objects live in `default`: the server wants it so. */
export function eventNamespace({ regarding }: Series): string {
  return regarding.namespace ?? "default";
}

/** Unique per recorder start and series, so that a retried create is the same object. */
export function eventName(series: Series, startedMs: number): string {
  const stem = (series.regarding.name ?? "unknown").slice(0, MAX_NAME_STEM);
  return `${stem}.${startedMs.toString(16)}-${series.id.toString(16)}`;
}

export function newEvent(series: Series, name: string, reporter: Reporter): KubeEvent {
  const { regarding, event, count } = series;
  return {
    metadata: { name, namespace: eventNamespace(series) },
    eventTime: microTime(series.firstAtMs),
    type: event.type,
    reason: event.reason.slice(0, MAX_WORD),
    action: event.action.slice(0, MAX_WORD),
    note: truncateBytes(event.note, MAX_NOTE),
    regarding,
    reportingController: reporter.reportingController,
    reportingInstance: reporter.reportingInstance.slice(0, MAX_WORD),
    series: count > 1 ? seriesOf(series) : undefined,
  };
}

/** `add` also replaces. */
export function incrementSeries(series: Series): JsonPatchOp[] {
  return [{ op: "add", path: "/series", value: seriesOf(series) }];
}

function seriesOf({ count, lastAtMs }: Series) {
  return { count, lastObservedTime: microTime(lastAtMs) };
}
