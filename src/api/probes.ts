/** Health probes of a replica, from the parts of probeOverrides that mean something without a kubelet. */
import type { ReplicaProbes } from "./inference-replica.ts";
import type { InferenceServiceSpec } from "./inference-service/index.ts";

/** A kubelet's own defaults, where a startup probe sets one of the two. */
const PERIOD_SECONDS = 10;
const START_FAILURES = 3;
const START_MAX_SECONDS = 86_400;
const TIMEOUT = { path: "liveness.timeoutSeconds", usual: 5, most: 600 };
const FAILURES = { path: "liveness.failureThreshold", usual: 3, most: 100 };
const SHOWN = 40;

type Probe = Readonly<Record<string, unknown>> | undefined;

interface Read<T> {
  readonly value: T;
  /** Settings that are not used as they are written, each with what is used instead. */
  readonly changed: readonly string[];
}

/** What a replica is probed with, and what of the service's settings that does not follow. */
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

/** Without a usable one of the two the time is that which the weights allow: a kubelet's half minute would be too little. */
function readStart(startup: Probe): Read<number | undefined> {
  const period = positive(startup?.periodSeconds);
  const failures = positive(startup?.failureThreshold);
  const isNamed = period !== undefined || failures !== undefined;
  const instead = (usual: number) =>
    isNamed ? `${usual} is used` : "the time that the weights allow is used";
  const changed = [
    ...unusable("startup.periodSeconds", startup?.periodSeconds, instead(PERIOD_SECONDS)),
    ...unusable("startup.failureThreshold", startup?.failureThreshold, instead(START_FAILURES)),
  ];
  if (!isNamed) return { value: undefined, changed };
  const asked = (period ?? PERIOD_SECONDS) * (failures ?? START_FAILURES);
  if (asked <= START_MAX_SECONDS) return { value: asked, changed };
  const cut = `startup (periodSeconds × failureThreshold is more than ${START_MAX_SECONDS}, which is used)`;
  return { value: START_MAX_SECONDS, changed: [...changed, cut] };
}

function readOne(
  asked: unknown,
  { path, usual, most }: { readonly path: string; readonly usual: number; readonly most: number },
): Read<number> {
  const value = positive(asked);
  if (value === undefined) return { value: usual, changed: unusable(path, asked, `${usual} is used`) };
  if (value <= most) return { value, changed: [] };
  return { value: most, changed: [`${path} (${value} is more than ${most}, which is used)`] };
}

function unusable(path: string, asked: unknown, instead: string): string[] {
  if (asked === undefined || asked === null || positive(asked) !== undefined) return [];
  return [`${path} (${JSON.stringify(asked).slice(0, SHOWN)} is not a whole number above 0; ${instead})`];
}

function positive(value: unknown): number | undefined {
  return typeof value === "number" && Number.isInteger(value) && value > 0 ? value : undefined;
}
