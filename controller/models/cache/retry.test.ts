import { expect, test } from "vitest";
import type { Model, ModelStatus } from "../../../src/api/model.ts";
import type { Job, PersistentVolumeClaim } from "../../../src/kube/workload-objects.ts";
import { desiredVolume } from "../../pods/workload/fixtures/desired-volume.ts";
import { buildFetchJob } from "../../pods/workload/model-cache.ts";
import { modelConfigSchema } from "../config.ts";
import { planCache } from "./plan.ts";

const NOW = Date.parse("2026-01-02T03:04:05Z");
const settings = modelConfigSchema.parse({
  image: "registry.example.com/metalbridge:1",
  cacheAccessMode: "ReadWriteMany",
});

const claimOf = (capacity: string | undefined): PersistentVolumeClaim => ({
  metadata: { name: "metalbridge-model-cache", uid: "claim" },
  spec: { accessModes: ["ReadWriteMany"], resources: { requests: { storage: "10Gi" } } },
  status: { phase: "Bound", capacity: capacity === undefined ? undefined : { storage: capacity } },
});

function pass(
  claim: PersistentVolumeClaim,
  job: Job | undefined,
  code = "DiskFull",
  cache?: ModelStatus["cache"],
) {
  const model = {
    metadata: { name: "m", namespace: "n", uid: "u", generation: 1 },
    spec: { source: "hf://org/repo/m.gguf", hardware: { accelerator: "cpu" } },
    status: { observedGeneration: 1, cache },
  } as Model;
  const message = JSON.stringify({ code, message: "no space left", isRetryable: false });
  const pod = {
    metadata: { name: "p" },
    spec: { containers: [] },
    status: {
      phase: "Failed" as const,
      containerStatuses: [{ name: "fetch", state: { terminated: { exitCode: 1, message } } }],
    },
  };
  return planCache({
    model,
    volume: desiredVolume(model, settings),
    settings,
    revision: undefined,
    claim: { at: "present", claim },
    claimProblem: undefined,
    job,
    pods: job === undefined ? [] : [pod],
    jobProblem: undefined,
    progress: undefined,
    isSourceKnown: true,
    nowMs: NOW,
  });
}

function failedOn(claim: PersistentVolumeClaim): Job {
  const [step] = pass(claim, undefined).steps;
  if (step?.do !== "createJob") throw new Error("no Job");
  const lastTransitionTime = new Date(NOW).toISOString();
  const job = buildFetchJob({ ...step.download, attempt: 9 }, settings);
  return { ...job, status: { conditions: [{ type: "Failed", status: "True", lastTransitionTime }] } };
}

test.each([
  ["20Gi", "40Gi"],
  [undefined, "40Gi"],
])(
  "a download that found its claim full is started again once the claim has grown (%s to %s)",
  (old, next) => {
    const job = failedOn(claimOf(old));
    const before = pass(claimOf(old), job);
    expect(before).toMatchObject({
      steps: [],
      recheckAfterMs: 3_600_000,
      state: { status: { attempts: 9 } },
    });
    const after = pass(claimOf(next), job, "DiskFull", before.state.status);
    expect(after.steps).toMatchObject([{ do: "removeJob", because: "the PVC was resized" }]);
    expect(pass(claimOf(next), undefined, "DiskFull", after.state.status).steps).toMatchObject([
      { do: "createJob", download: { attempt: 1, capacity: next } },
    ]);
    expect(pass(claimOf(next), job, "SourceNotFound", before.state.status).steps).toEqual([]);
  },
);
