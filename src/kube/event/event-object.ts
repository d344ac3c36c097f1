/** Event objects (events.k8s.io/v1) within the limits of the server. */
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

/** The server requires that Events of cluster-scoped objects are in `default`. */
export function eventNamespace({ regarding }: Series): string {
  return regarding.namespace ?? "default";
}

/** Unique per start of the recorder and series, so that a retry creates the same object. */
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

/** The operation `add` also replaces an existing series. */
export function incrementSeries(series: Series): JsonPatchOp[] {
  return [{ op: "add", path: "/series", value: seriesOf(series) }];
}

function seriesOf({ count, lastAtMs }: Series) {
  return { count, lastObservedTime: microTime(lastAtMs) };
}
