import { describe, expect, test } from "vitest";
import type { Model, ModelStatus } from "../../../src/api/model.ts";
import type { Job, PersistentVolumeClaim, Pod } from "../../../src/kube/workload-objects.ts";
import { desiredVolume } from "../../pods/workload/fixtures/desired-volume.ts";
import { buildFetchJob, downloadKey } from "../../pods/workload/model-cache.ts";
import { modelConfigSchema } from "../config.ts";
import { type CacheObservation, planCache, RECHECK_MS } from "./plan.ts";

const NOW = Date.parse("2026-01-02T03:04:05Z");
const MINUTE = 60_000;
const settings = modelConfigSchema.parse({
  image: "registry.example.com/metalbridge:1",
  cacheAccessMode: "ReadWriteMany",
});

function model(uid = "u", status?: ModelStatus): Model {
  const spec = { source: "hf://org/repo/m.gguf", hardware: { accelerator: "cpu" } } as Model["spec"];
  return { metadata: { name: "m", namespace: "n", uid, generation: 1 }, spec, ...(status && { status }) };
}

const claim: PersistentVolumeClaim = {
  metadata: { name: "metalbridge-model-cache", uid: "claim" },
  spec: { accessModes: ["ReadWriteMany"] },
  status: { phase: "Bound" },
};
const key = downloadKey(model(), desiredVolume(model(), settings), "claim");
function job(condition?: { type: string; ago: number }, of = model(), attempt = 1): Job {
  const made = buildFetchJob({ model: of, volume: desiredVolume(of, settings), key, attempt }, settings);
  if (condition === undefined) return made;
  const lastTransitionTime = new Date(NOW - condition.ago).toISOString();
  const reason = { reason: "BackoffLimitExceeded", message: "Job has reached the specified backoff limit" };
  return {
    ...made,
    status: { conditions: [{ type: condition.type, status: "True", lastTransitionTime, ...reason }] },
  };
}

function pod(exitCode: number, message: object | string, age = 0): Pod {
  const text = typeof message === "string" ? message : JSON.stringify(message);
  const terminated = { exitCode, message: text, reason: exitCode === 137 ? "OOMKilled" : undefined };
  return {
    metadata: { name: `p-${age}`, creationTimestamp: new Date(NOW - age).toISOString() },
    spec: { containers: [] },
    status: {
      phase: exitCode === 0 ? "Succeeded" : "Failed",
      containerStatuses: [{ name: "fetch", state: { terminated } }],
    },
  };
}

const running: Pod = { metadata: { name: "p" }, spec: { containers: [] }, status: { phase: "Running" } };

function plan(more: Partial<CacheObservation> = {}) {
  const of = more.model ?? model();
  return planCache({
    model: of,
    volume: desiredVolume(of, settings),
    settings,
    claim: { at: "present", claim },
    pods: [],
    isSourceKnown: true,
    nowMs: NOW,
    ...more,
  });
}

const failure = (isRetryable: boolean, code = "SourceUnreachable") => ({
  code,
  message: "no answer",
  isRetryable,
});

test("a failed Job is replaced after a delay that doubles with each attempt, an hour at most", () => {
  const failed = (attempt: number, ago: number) =>
    plan({ job: job({ type: "Failed", ago }, model(), attempt), pods: [pod(1, failure(true))] });
  expect(failed(1, 0)).toMatchObject({
    recheckAfterMs: MINUTE,
    steps: [],
    state: { status: { phase: "Pending", attempts: 1 } },
  });
  expect(failed(3, 0).recheckAfterMs).toBe(4 * MINUTE);
  expect(failed(50, 0).recheckAfterMs).toBe(60 * MINUTE);
  expect(failed(1, MINUTE)).toMatchObject({
    steps: [{ do: "removeJob" }],
    state: { status: { attempts: 1 } },
  });
  // The clock of the API server is ahead of ours.
  expect(failed(1, -10 * MINUTE).recheckAfterMs).toBe(MINUTE);
  const status = failed(1, MINUTE).state.status;
  expect(plan({ model: model("u", { cache: status }) }).steps).toMatchObject([
    { do: "createJob", download: { attempt: 2 } },
  ]);
});

test("a Job that loops without a result is reported with the exit of its last pod", () => {
  const { state } = plan({ job: job({ type: "Failed", ago: 0 }), pods: [pod(1, "", 9), pod(137, "", 1)] });
  expect(state.status).toMatchObject({ phase: "Failed", reason: "DownloadFailed" });
  expect(state.status.message).toMatch(/BackoffLimitExceeded.*OOMKilled, exit code 137; a new Job resumes/);
});

test("a retry within the Job shows the cause of the attempt before until it gets further than that", () => {
  const running: Pod = {
    metadata: { name: "new", creationTimestamp: "2027" },
    spec: { containers: [] },
    status: { phase: "Running" },
  };
  const cache = {
    phase: "Downloading",
    reason: "Downloading",
    message: "",
    claimName: "c",
    folder: "f",
  } as const;
  const planAt = (bytes: number | undefined) => {
    const progress = bytes === undefined ? undefined : { bytes, totalBytes: 9_000 };
    const earlier = model("u", { cache: { ...cache, key, bytes: 5_000 } });
    return plan({ model: earlier, job: job(), pods: [pod(75, failure(true)), running], progress });
  };
  for (const { state, running: shown } of [undefined, 0, 5_000].map(planAt)) {
    expect(state.status).toMatchObject({ phase: "Pending", reason: "SourceUnreachable", bytes: 5_000 });
    expect(shown).toBe(running);
  }
  expect(planAt(6_000).state).toMatchObject({
    status: { phase: "Downloading", bytes: 6_000, totalBytes: 9_000 },
    problem: { code: "SourceUnreachable" },
  });
});

test("weights that are Ready need no Job until the claim is replaced", () => {
  const status = {
    phase: "Ready",
    reason: "Downloaded",
    message: "",
    claimName: claim.metadata.name,
    folder: "f",
    key,
  } as const;
  const ready = model("u", { cache: status });
  expect(plan({ model: ready })).toEqual({ state: { status }, steps: [] });
  const other = { ...claim, metadata: { ...claim.metadata, uid: "another" } };
  expect(plan({ model: ready, claim: { at: "present", claim: other } }).steps).toMatchObject([
    { do: "createJob" },
  ]);
  expect(plan({ model: ready, claim: { at: "absent" } }).steps).toEqual([{ do: "createClaim" }]);
});

test("a complete Job without a result counts as failed, so that it cannot loop", () => {
  for (const pods of [[], [pod(0, "")]])
    expect(plan({ job: job({ type: "Complete", ago: 0 }), pods })).toMatchObject({
      steps: [],
      recheckAfterMs: MINUTE,
      state: { status: { reason: "DownloadFailed", message: expect.stringContaining("left no result") } },
    });
});

test("the plan waits for results while the pod watch is behind the end of the Job", () => {
  for (const type of ["Complete", "Failed"])
    expect(plan({ job: job({ type, ago: 0 }), pods: [running] })).toMatchObject({
      steps: [],
      state: { status: { phase: "Downloading" }, problem: undefined },
    });
});

test("a Job that failed for another Model is replaced by one of this Model, once", () => {
  const theirs = job({ type: "Failed", ago: RECHECK_MS }, model("other"));
  const pods = [pod(1, failure(false, "SourceUnauthorized"))];
  const justNow = plan({ job: job({ type: "Failed", ago: 0 }, model("other")), pods });
  expect(justNow).toMatchObject({ steps: [], recheckAfterMs: RECHECK_MS });
  expect(plan({ job: theirs, pods }).steps).toMatchObject([{ do: "removeJob" }]);
  const { status } = plan({ job: job({ type: "Failed", ago: 0 }), pods }).state;
  expect(plan({ model: model("u", { cache: status }), job: theirs, pods })).toMatchObject({
    steps: [],
    state: { status: { reason: "SourceUnauthorized" } },
  });
});

test("another Model's Job for the same files is shared, for other files it is waited for", () => {
  const theirs = job(undefined, model("other"));
  expect(plan({ job: theirs })).toMatchObject({
    steps: [],
    state: { status: { reason: "StartingDownload" } },
  });
  const spec = { ...model().spec, sha256: "0".repeat(64) };
  const waits = plan({ model: { ...model(), spec }, job: theirs });
  expect(waits).toMatchObject({ steps: [], state: { status: { reason: "WaitingForDownload" } } });
  const ended = (ago: number) =>
    plan({ model: { ...model(), spec }, job: job({ type: "Complete", ago }, model("other")) });
  expect(ended(0)).toMatchObject({ steps: [], recheckAfterMs: RECHECK_MS });
  expect(ended(RECHECK_MS).steps).toMatchObject([{ do: "removeJob" }]);
});

test("a download for another Model is not used by a Model with another Secret, which may name another server", () => {
  const pods = [pod(0, { code: "Fetched", sizeBytes: 5, file: "views/a/m.gguf", files: ["m.gguf"] })];
  const ended = { job: job({ type: "Complete", ago: RECHECK_MS }, model("other")), pods };
  expect(plan(ended).state.status.phase).toBe("Ready");
  const spec = { ...model().spec, sourceSecretRef: { name: "mine" } };
  expect(plan({ ...ended, model: { ...model(), spec } })).toMatchObject({
    steps: [{ do: "removeJob", because: "it downloads other content" }],
    state: { status: { phase: "Pending" } },
  });
});

test("a Job whose credentials were rejected is replaced without a delay once the Secret changes", () => {
  const spec = { ...model().spec, sourceSecretRef: { name: "hub" } };
  const of = { ...model(), spec };
  const key = downloadKey(of, desiredVolume(of, settings), "claim");
  const made = buildFetchJob(
    { model: of, volume: desiredVolume(of, settings), key, attempt: 9, secretVersion: "7" },
    settings,
  );
  const ended = { ...made, status: job({ type: "Failed", ago: 0 }).status };
  const cache = plan({ model: of, job: ended as Job, pods: [pod(1, failure(false))] }).state.status;
  const before = { ...of, status: { cache, observedGeneration: 1 } };
  const after = (secretVersion: string | undefined, code = "SourceUnauthorized") =>
    plan({ model: before, job: ended as Job, pods: [pod(1, failure(false, code))], secretVersion });
  for (const [same, code] of [["7"], [undefined], ["7", "SourceSecretInvalid"]])
    expect(after(same, code)).toMatchObject({
      steps: [],
      recheckAfterMs: 60 * MINUTE,
      waitsForSecret: true,
      state: { status: { attempts: 9 } },
    });
  const replaced = after("8");
  expect(replaced.steps).toMatchObject([{ do: "removeJob", because: "the Secret of the source changed" }]);
  const status = { cache: replaced.state.status, observedGeneration: 1 };
  const { steps } = plan({ model: { ...before, status } });
  expect(steps).toMatchObject([{ do: "createJob", download: { attempt: 1 } }]);
  expect(after(undefined, "DiskFull")).toMatchObject({ recheckAfterMs: 60 * MINUTE, waitsForSecret: false });
});

test("a Job whose image cannot be pulled is replaced once the controller's image has changed", () => {
  const pods = [waitingFor("ImagePullBackOff", "Back-off pulling image")];
  expect(plan({ job: job(), pods }).steps).toEqual([]);
  for (const other of [{ image: "registry.example.com/metalbridge:2" }, { imagePullSecrets: ["pull"] }])
    expect(plan({ job: job(), pods, settings: { ...settings, ...other } }).steps).toMatchObject([
      { do: "removeJob", because: "the controller's image has changed" },
    ]);
  const upgraded = { ...settings, image: "registry.example.com/metalbridge:2" };
  expect(plan({ job: job(), pods: [running], settings: upgraded }).steps).toEqual([]);
});

const waitingFor = (reason: string, message: string): Pod => ({
  metadata: { name: "p" },
  spec: { containers: [] },
  status: {
    phase: "Pending",
    containerStatuses: [{ name: "fetch", state: { waiting: { reason, message } } }],
  },
});
const unscheduled = (message: string): Pod => ({
  metadata: { name: "p" },
  spec: { containers: [] },
  status: {
    phase: "Pending",
    conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable", message }],
  },
});

test.each<[Pod, string | undefined]>([
  [waitingFor("ImagePullBackOff", "Back-off pulling image"), "DownloadImageUnavailable"],
  [waitingFor("CreateContainerConfigError", 'secret "hub" not found'), "SourceSecretInvalid"],
  [waitingFor("ContainerCreating", ""), undefined],
  [
    unscheduled("0/3 nodes are available: 3 node(s) had volume node affinity conflict."),
    "UnbindableModelCache",
  ],
  [unscheduled("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."), undefined],
  [unscheduled("0/1 nodes are available: 1 Insufficient memory."), "DownloadUnschedulable"],
])("a pod that does not start: case %#", (one, code) => {
  expect(plan({ job: job(), pods: [one] }).state.problem?.code).toBe(code);
});

describe("a volume that one node mounts", () => {
  const once = modelConfigSchema.parse({ image: "registry.example.com/metalbridge:1" });
  const onOneNode = (more: Partial<CacheObservation> = {}) => {
    const of = more.model ?? model();
    return plan({ volume: desiredVolume(of, once), settings: once, model: of, ...more });
  };
  const claimOf = (...accessModes: string[]): CacheObservation["claim"] => ({
    at: "present",
    claim: { ...claim, spec: { accessModes } },
  });

  const storage: CacheObservation["storage"] = {
    at: "unbound",
    storageClass: {
      metadata: { name: "zonal" },
      provisioner: "p",
      volumeBindingMode: "WaitForFirstConsumer",
    },
  };
  const ofAllNodes: CacheObservation["storage"] = {
    at: "bound",
    volume: { metadata: { name: "v" }, spec: {} },
  };
  const cacheOf = (more: Partial<NonNullable<ModelStatus["cache"]>>) => {
    const { claimName, folder } = desiredVolume(model(), once);
    return model("u", { cache: { phase: "Pending", reason: "", message: "", claimName, folder, ...more } });
  };

  test("a volume that one node mounts is filled by the pods that mount it if a Job would choose its node", () => {
    expect(onOneNode({ claim: claimOf("ReadWriteOnce"), storage })).toMatchObject({
      steps: [],
      state: {
        status: {
          phase: "Pending",
          reason: "DownloadedByPods",
          filledBy: "Pods",
          claimName: "m-model-cache",
          message: expect.stringContaining("StorageClass zonal chooses the volume's node by its first pod"),
        },
      },
    });
    expect(onOneNode({ claim: claimOf("ReadWriteOncePod"), storage }).state.status.filledBy).toBe("Pods");
    expect(onOneNode({ claim: claimOf("ReadWriteOnce", "ReadWriteMany") }).steps).toMatchObject([
      { do: "createJob" },
    ]);
  });

  test("a volume that any node mounts, one at a time, is filled by a Job beside the pods that have mounted it", () => {
    const [step] = onOneNode({ claim: claimOf("ReadWriteOnce"), storage: ofAllNodes }).steps;
    if (step?.do !== "createJob") throw new Error("no Job");
    const { template } = buildFetchJob(step.download, once).spec;
    const label = Object.keys(template.metadata?.labels ?? {}).find((name) =>
      name.startsWith("metalbridge.dev/mounts-"),
    );
    expect(label).toBeDefined();
    expect(JSON.stringify(template.spec.affinity)).toContain(label);
    const done = onOneNode({
      claim: claimOf("ReadWriteOnce"),
      job: buildFetchJob(step.download, once),
      pods: [running],
    });
    expect(done.state.status).toMatchObject({ phase: "Downloading", singleNode: true });
    const failed = onOneNode({
      claim: claimOf("ReadWriteOnce"),
      storage: ofAllNodes,
      job: {
        ...buildFetchJob(step.download, once),
        status: {
          conditions: [{ type: "Failed", status: "True", lastTransitionTime: new Date(NOW).toISOString() }],
        },
      },
      pods: [pod(1, failure(false, "SourceNotFound"))],
    });
    expect(failed).toMatchObject({
      recheckAfterMs: MINUTE,
      steps: [],
      state: { status: { phase: "Failed", reason: "SourceNotFound", attempts: 1 } },
    });
  });

  test.each<[string, Partial<CacheObservation>, RegExp]>([
    ["pods have begun to fill it", { model: cacheOf({ filledBy: "Pods" }) }, /pods have begun to fill it/],
    [
      "its reason stays in the status",
      {
        model: cacheOf({ filledBy: "Pods", reason: "DownloadedByPods", message: "as before" }),
        storage: undefined,
      },
      /^as before$/,
    ],
    [
      "it holds other weights",
      { model: cacheOf({ phase: "Ready", key: "other" }) },
      /it holds earlier weights/,
    ],
    ["a service uses the Model as a draft", { isBeside: true }, /beside its main Model/],
  ])("a volume that any node mounts is filled by pods if %s", (_, more, message) => {
    const { steps, state } = onOneNode({ claim: claimOf("ReadWriteOnce"), storage: ofAllNodes, ...more });
    expect(steps).toEqual([]);
    expect(state.status).toMatchObject({ filledBy: "Pods", message: expect.stringMatching(message) });
  });

  test("a Job that no node can run hands the volume of one node over to the pods, which may tolerate more", () => {
    const at = { claim: claimOf("ReadWriteOnce"), storage: ofAllNodes };
    const [step] = onOneNode(at).steps;
    if (step?.do !== "createJob") throw new Error("no Job");
    const waits = unscheduled("0/1 nodes are available: 1 node(s) had untolerated taint(s).");
    const { steps, state } = onOneNode({ ...at, job: buildFetchJob(step.download, once), pods: [waits] });
    expect(steps).toMatchObject([{ do: "removeJob" }]);
    expect(state.status).toMatchObject({ filledBy: "Pods", reason: "DownloadedByPods" });
  });

  test("a volume that one node mounts is created once the size of the weights is known, and is not polled while pods fill it", () => {
    const absent = { claim: { at: "absent" } } as const;
    expect(onOneNode({ ...absent, isSourceKnown: false })).toMatchObject({
      steps: [],
      state: { isUndecided: true, status: { reason: "ReadingSource" } },
    });
    expect(onOneNode(absent).steps).toEqual([{ do: "createClaim" }]);
    const { at, claim: one } = claimOf("ReadWriteOnce") as Extract<
      CacheObservation["claim"],
      { at: "present" }
    >;
    const unbound = { at, claim: { ...one, status: { phase: "Pending" } } } as const;
    expect(onOneNode({ claim: unbound, storage }).recheckAfterMs).toBeUndefined();
  });

  test("a claim that is bound at once is waited for, and a missing class is reported meanwhile", () => {
    const { at, claim: one } = claimOf("ReadWriteOnce") as Extract<
      CacheObservation["claim"],
      { at: "present" }
    >;
    const unbound = { at, claim: { ...one, status: { phase: "Pending" } } } as const;
    const missing: CacheObservation["storage"] = { at: "unbound", storageClass: undefined };
    expect(onOneNode({ claim: unbound, storage: missing })).toMatchObject({
      recheckAfterMs: RECHECK_MS,
      steps: [],
      state: { isUndecided: true, status: { phase: "Pending", reason: "BindingClaim" } },
    });
    const claimProblem = { code: "UnbindableModelCache", message: "no class" } as const;
    expect(onOneNode({ claim: unbound, storage: missing, claimProblem })).toMatchObject({
      recheckAfterMs: RECHECK_MS,
      steps: [],
      state: { isUndecided: true, problem: claimProblem, status: { reason: "UnbindableModelCache" } },
    });
  });

  test("a volume that one node mounts cannot be filled if the controller has no image", () => {
    const { state } = onOneNode({ claim: { at: "absent" }, settings: modelConfigSchema.parse({}) });
    expect(state).toMatchObject({ problem: { code: "ModelCacheNotConfigured" } });
    expect(state.status.filledBy).toBeUndefined();
  });

  test("a volume that one node mounts keeps the download of an earlier version's Job, and lets a running Job finish", () => {
    const status = {
      phase: "Ready" as const,
      reason: "Downloaded",
      message: "",
      claimName: "metalbridge-model-cache",
      folder: desiredVolume(model(), settings).folder,
      key,
    };
    const claimBefore = claimOf("ReadWriteOnce");
    expect(onOneNode({ model: model("u", { cache: status }), claim: claimBefore })).toEqual({
      state: { status },
      steps: [],
    });
    expect(plan({ claim: claimBefore, job: job(), pods: [running] }).state.status.phase).toBe("Downloading");
    const failed = plan({ claim: claimBefore, storage, job: job({ type: "Failed", ago: 0 }) });
    expect(failed.state.status.filledBy).toBe("Pods");
  });
});

test("a pod of the Job that exits without a result is reported while the Job waits to start the next one", () => {
  const message = expect.stringMatching(/its last pod ended with OOMKilled, exit code 137; .*memory/);
  const { status, problem } = plan({ job: job(), pods: [pod(137, "", 9)] }).state;
  expect(status).toMatchObject({ phase: "Pending", reason: "DownloadFailed", message });
  expect(problem).toEqual({ code: "DownloadFailed", message: status.message });
});

describe("a mesh's sidecar beside the download", () => {
  const fetched = { code: "Fetched", sizeBytes: 5, file: "views/a/m.gguf", files: ["m.gguf"] };
  const beside = (exitCode: number, message: object): Pod => {
    const { status, ...ended } = pod(exitCode, message);
    const finishedAt = new Date(NOW).toISOString();
    const [own] = status?.containerStatuses ?? [];
    const terminated = { ...own?.state?.terminated, exitCode, finishedAt };
    const proxy = { name: "istio-proxy", ready: true, state: { running: {} } };
    return {
      ...ended,
      status: { phase: "Running", containerStatuses: [proxy, { name: "fetch", state: { terminated } }] },
    };
  };

  test("a mesh's sidecar does not hide that the weights are complete, and the Job that it keeps running is removed", () => {
    expect(plan({ job: job(), pods: [beside(0, fetched)] })).toMatchObject({
      steps: [{ do: "removeJob" }],
      state: { status: { phase: "Ready", file: "views/a/m.gguf" }, fetched: { sizeBytes: 5 } },
    });
  });

  test("a mesh's sidecar does not hide why a download failed, and the Job is replaced after the delay", () => {
    const refused = beside(1, failure(false, "SourceUnauthorized"));
    expect(plan({ job: job(), pods: [refused] })).toMatchObject({
      steps: [],
      recheckAfterMs: MINUTE,
      state: { status: { phase: "Failed", reason: "SourceUnauthorized", attempts: 1 } },
    });
    const later = plan({ job: job(), pods: [refused], nowMs: NOW + MINUTE });
    expect(later.steps).toMatchObject([{ do: "removeJob" }]);
  });

  test("a mesh's sidecar does not hide why the download cannot start", () => {
    const waiting = waitingFor("ImagePullBackOff", "Back-off pulling image");
    waiting.status?.containerStatuses &&
      Object.assign(waiting.status, {
        containerStatuses: [
          { name: "istio-proxy", state: { waiting: { reason: "PodInitializing" } } },
          ...waiting.status.containerStatuses,
        ],
      });
    expect(plan({ job: job(), pods: [waiting] }).state.problem?.code).toBe("DownloadImageUnavailable");
  });
});
