/** Health probes of a replica, from the settings in probeOverrides that apply without a kubelet. */
import type { ReplicaProbes } from "./inference-replica.ts";
import type { InferenceServiceSpec } from "./inference-service/index.ts";

/** Defaults of a kubelet, used if a startup probe sets only one of the two. */
const PERIOD_SECONDS = 10;
const START_FAILURES = 3;
const START_MAX_SECONDS = 86_400;
const TIMEOUT = { path: "liveness.timeoutSeconds", fallback: 5, max: 600 };
const FAILURES = { path: "liveness.failureThreshold", fallback: 3, max: 100 };
const MAX_QUOTED = 40;

type Probe = Readonly<Record<string, unknown>> | undefined;

interface Read<T> {
  readonly value: T;
  /** Settings that are not used as written, each with the value that is used instead. */
  readonly changed: readonly string[];
}

/** Probes of a replica, and the settings of the service that are changed or ignored. */
export function readProbes(overrides: InferenceServiceSpec["probeOverrides"]): Read<ReplicaProbes> {
  const start = readStart(overrides?.startup);
  const timeout = readOne(overrides?.liveness?.timeoutSeconds, TIMEOUT);
  const failures = readOne(overrides?.liveness?.failureThreshold, FAILURES);
  return {
    value: {
      startSeconds: start.value,
      timeoutSeconds: timeout.value,
      failureThreshold: failures.value,
    },
    changed: [...start.changed, ...timeout.changed, ...failures.changed],
  };
}

/** If neither setting is usable, the timeout scales with the size of the weights: a kubelet's 30 seconds would be too short. */
function readStart(startup: Probe): Read<number | undefined> {
  const period = positive(startup?.periodSeconds);
  const failures = positive(startup?.failureThreshold);
  const isSet = period !== undefined || failures !== undefined;
  const instead = (fallback: number) =>
    isSet ? `${fallback} is used` : "the time that the weights allow is used";
  const changed = [
    ...unusable("startup.periodSeconds", startup?.periodSeconds, instead(PERIOD_SECONDS)),
    ...unusable("startup.failureThreshold", startup?.failureThreshold, instead(START_FAILURES)),
  ];
  if (!isSet) return { value: undefined, changed };
  const seconds = (period ?? PERIOD_SECONDS) * (failures ?? START_FAILURES);
  if (seconds <= START_MAX_SECONDS) return { value: seconds, changed };
  const capped = `startup (periodSeconds × failureThreshold is more than ${START_MAX_SECONDS}, which is used)`;
  return { value: START_MAX_SECONDS, changed: [...changed, capped] };
}

function readOne(setting: unknown, { path, fallback, max }: typeof TIMEOUT): Read<number> {
  const value = positive(setting);
  if (value === undefined)
    return { value: fallback, changed: unusable(path, setting, `${fallback} is used`) };
  if (value <= max) return { value, changed: [] };
  return { value: max, changed: [`${path} (${value} is more than ${max}, which is used)`] };
}

function unusable(path: string, setting: unknown, instead: string): string[] {
  if (setting === undefined || setting === null || positive(setting) !== undefined) return [];
  const quoted = JSON.stringify(setting).slice(0, MAX_QUOTED);
  return [`${path} (${quoted} is not a whole number above 0; ${instead})`];
}

function positive(value: unknown): number | undefined {
  return typeof value === "number" && Number.isInteger(value) && value > 0 ? value : undefined;
}
