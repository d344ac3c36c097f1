/** spec.idle at the real API server: defaults, and windows that it refuses. */
import { expect, test } from "vitest";
import { sharedCluster } from "../../../test/cluster/cluster.ts";
import { manifest, withFields } from "../../../test/fixtures/manifests.ts";

async function create(idle: unknown, autoscaling?: unknown): Promise<{ spec: Record<string, unknown> }> {
  const service = manifest("InferenceService", "idle", "default");
  const object = withFields(service, { "spec.idle": idle, "spec.autoscaling": autoscaling });
  return sharedCluster().objects.create(object, { dryRun: true });
}

test("idle settings get a minimum residency, and windows stay as they were written", async () => {
  const night = { start: "22:00", end: "06:00" };
  const day = { start: "00:00", end: "24:00", timeZone: "America/Argentina/Buenos_Aires" };
  const keepWarm = [night, { ...day, days: ["Mon", "Tue"] }];
  const { spec } = await create({ afterMinutes: 30, keepWarm }, { minReplicas: 1, maxReplicas: 2 });
  expect(spec.idle).toEqual({ afterMinutes: 30, minimumResidencySeconds: 120, keepWarm });
});

test.concurrent.for<[title: string, idle: unknown, says: RegExp]>([
  ["no time", {}, /spec\.idle\.afterMinutes: Required/],
  ["at once", { afterMinutes: 0 }, /spec\.idle\.afterMinutes/],
  [
    "a window that is no time of day",
    { afterMinutes: 5, keepWarm: [{ start: "8:00", end: "25:00" }] },
    /spec\.idle\.keepWarm\[0\]\.start/,
  ],
  [
    "a window without length",
    { afterMinutes: 5, keepWarm: [{ start: "08:00", end: "08:00" }] },
    /idle\.keepWarm: start and end must differ/,
  ],
  [
    "a day twice",
    { afterMinutes: 5, keepWarm: [{ days: ["Mon", "Mon"], start: "08:00", end: "18:00" }] },
    /spec\.idle\.keepWarm\[0\]\.days\[1\]: Duplicate value/,
  ],
  [
    "an unknown time zone",
    { afterMinutes: 5, keepWarm: [{ start: "08:00", end: "18:00", timeZone: "Mars/Base" }] },
    /spec\.idle\.keepWarm\[0\]\.timeZone.*unknown time zone Mars\/Base/,
  ],
  [
    "the server's own time zone",
    { afterMinutes: 5, keepWarm: [{ start: "08:00", end: "18:00", timeZone: "Local" }] },
    /spec\.idle\.keepWarm\[0\]\.timeZone/,
  ],
])("idle settings are refused: %s", async ([, idle, says]) => {
  await expect(create(idle)).rejects.toThrow(says);
});

test("idle settings are refused beside an autoscaler that scales to zero", async () => {
  const autoscaling = { engine: "KEDA", minReplicas: 0, maxReplicas: 2 };
  await expect(create({ afterMinutes: 5 }, autoscaling)).rejects.toThrow(
    /spec\.idle and spec\.autoscaling\.minReplicas 0 both unload idle replicas/,
  );
});
