/** Two Models of one source have one folder, and so one name for their Jobs. */
import { expect, test } from "vitest";
import type { Model, ModelStatus } from "../../../src/api/model.ts";
import type { Job, PersistentVolumeClaim, Pod } from "../../../src/kube/workload-objects.ts";
import { desiredVolume } from "../../pods/workload/fixtures/desired-volume.ts";
import { buildFetchJob, downloadKey } from "../../pods/workload/model-cache.ts";
import { modelConfigSchema } from "../config.ts";
import { jobEndOf } from "./job.ts";
import { type CacheObservation, type CacheStep, planCache } from "./plan.ts";

const NOW = Date.parse("2026-01-02T03:04:05Z");
const MINUTE = 60_000;
const STEP_MS = 5_000;
const settings = modelConfigSchema.parse({
  image: "registry.example.com/metalbridge:1",
  cacheAccessMode: "ReadWriteMany",
});
const claim: PersistentVolumeClaim = {
  metadata: { name: "metalbridge-model-cache", uid: "claim" },
  spec: { accessModes: ["ReadWriteMany"] },
  status: { phase: "Bound" },
};

function modelOf(name: string, status?: ModelStatus): Model {
  const hardware = { accelerator: "cpu" };
  const spec = { source: "hf://org/repo", files: [`${name}.gguf`], hardware } as unknown as Model["spec"];
  return { metadata: { name, namespace: "n", uid: name, generation: 1 }, spec, ...(status && { status }) };
}

function plan(of: Model, more: Partial<CacheObservation>) {
  return planCache({
    model: of,
    volume: desiredVolume(of, settings),
    settings,
    revision: undefined,
    claim: { at: "present", claim },
    claimProblem: undefined,
    job: undefined,
    pods: [],
    jobProblem: undefined,
    progress: undefined,
    isSourceKnown: true,
    nowMs: NOW,
    ...more,
  });
}

type Download = Pick<CacheObservation, "job" | "pods">;

function ended(job: Job, failing: readonly string[], nowMs: number): Download {
  const isFailing = failing.includes(job.metadata.ownerReferences?.[0]?.name ?? "");
  const message = isFailing
    ? { code: "SourceNotFound", message: "no such file", isRetryable: false }
    : { code: "Fetched", sizeBytes: 5, file: "views/a/m.gguf", files: ["m.gguf"] };
  const terminated = { exitCode: isFailing ? 1 : 0, message: JSON.stringify(message) };
  const lastTransitionTime = new Date(nowMs).toISOString();
  const pod: Pod = {
    metadata: { name: "p" },
    spec: { containers: [] },
    status: {
      phase: isFailing ? "Failed" : "Succeeded",
      containerStatuses: [{ name: "fetch", state: { terminated } }],
    },
  };
  const condition = { type: isFailing ? "Failed" : "Complete", status: "True", lastTransitionTime } as const;
  return { job: { ...job, status: { conditions: [condition] } }, pods: [pod] };
}

/** An hour in steps of five seconds, in which each Job ends. */
function simulate(order: readonly string[], failing: readonly string[]) {
  const statuses = new Map<string, ModelStatus["cache"]>();
  const created: string[] = [];
  let live: Download = { job: undefined, pods: [] };
  const apply = (name: string, step: CacheStep): void => {
    if (step.do === "removeJob") live = { job: undefined, pods: [] };
    if (step.do !== "createJob") return;
    created.push(name);
    live = { job: buildFetchJob(step.download, settings), pods: [] };
  };
  for (let nowMs = NOW; nowMs < NOW + 60 * MINUTE; nowMs += STEP_MS) {
    if (live.job !== undefined && jobEndOf(live.job) === undefined) live = ended(live.job, failing, nowMs);
    for (const name of order) {
      const status = { observedGeneration: 1, cache: statuses.get(name) };
      const { state, steps } = plan(modelOf(name, status), { ...live, nowMs });
      statuses.set(name, state.status);
      for (const step of steps) apply(name, step);
    }
  }
  return { created, phases: Object.fromEntries([...statuses].map(([name, one]) => [name, one?.phase])) };
}

test.each([[["bad", "good"]], [["good", "bad"]]])(
  "a Model that fails is retried with its delays, and the other one has its turn (order %#)",
  (order) => {
    const { created, phases } = simulate(order, ["bad"]);
    expect(phases).toEqual({ bad: "Failed", good: "Ready" });
    expect(created.filter((name) => name === "good")).toHaveLength(1);
    expect(created.indexOf("good")).toBeLessThan(3);
    expect(created.length).toBeLessThanOrEqual(8);
  },
);

test("two Models that both fail are retried with their own delays", () => {
  const { created } = simulate(["q4", "q8"], ["q4", "q8"]);
  for (const name of ["q4", "q8"]) {
    const own = created.filter((one) => one === name).length;
    expect(own).toBeGreaterThanOrEqual(4);
    expect(own).toBeLessThanOrEqual(7);
  }
});

test("a failure stays in the status while the Job of another Model runs, until the spec changes", () => {
  const bad = modelOf("bad");
  const key = downloadKey(bad, desiredVolume(bad, settings), "claim");
  const failed = buildFetchJob(
    { model: bad, volume: desiredVolume(bad, settings), key, attempt: 1 },
    settings,
  );
  const { status } = plan(bad, ended(failed, ["bad"], NOW)).state;
  expect(status).toMatchObject({ phase: "Failed", attempts: 1, failedAt: "2026-01-02T03:04:05Z" });
  const good = modelOf("good");
  const theirs = buildFetchJob(
    { model: good, volume: desiredVolume(good, settings), key: "other", attempt: 1 },
    settings,
  );
  const later = (observedGeneration: number, job?: Job) =>
    plan(modelOf("bad", { observedGeneration, cache: status }), { job, nowMs: NOW + MINUTE / 2 });
  for (const job of [theirs, undefined])
    expect(later(1, job)).toMatchObject({
      steps: [],
      recheckAfterMs: MINUTE / 2,
      state: { status, problem: { code: "SourceNotFound" } },
    });
  expect(later(0).steps).toMatchObject([{ do: "createJob", download: { attempt: 2 } }]);
});
