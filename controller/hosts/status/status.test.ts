import { expect, test } from "vitest";
import { getCondition } from "../../../src/api/conditions.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { inferenceServiceSpecSchema } from "../../../src/api/inference-service/index.ts";
import type { Model } from "../../../src/api/model.ts";
import { DIRECT } from "../plan/observed.ts";
import { draftService, NO_ROLLOUT_FINDINGS } from "../plan/plan.ts";
import { type Case, model, NOW, statusOf, unplaced } from "./fixtures/status.ts";
import { planStatus } from "./status.ts";

test.each<[string, Case, object]>([
  ["nothing yet", {}, { phase: "Creating", ready: "0/1" }],
  ["all ready", { phases: ["Ready"] }, { phase: "Ready", reason: "InferenceReady", ready: "1/1" }],
  [
    "loading",
    { phases: ["Starting|EngineStarting|loading"] },
    { phase: "Creating", reason: "EngineStarting" },
  ],
  [
    "one of two fails, one answers",
    { spec: { replicas: 2 }, phases: ["Ready", "Failed|EngineBadModel|bad file"] },
    { phase: "Degraded", reason: "EngineBadModel", ready: "1/2" },
  ],
  [
    "one of two serves and the other starts",
    {
      spec: { replicas: 2 },
      phases: ["Ready", "Starting|EngineStarting|loading"],
      before: { phase: "Ready" },
    },
    { phase: "Progressing", reason: "EngineStarting" },
  ],
  [
    "one of two restarts",
    {
      spec: { replicas: 2 },
      phases: ["Ready", "Starting|EngineStarting|loading"],
      before: { phase: "Ready", readyReplicas: 2 },
    },
    { phase: "Degraded", reason: "EngineStarting" },
  ],
  ["all fail", { phases: ["Failed|EngineBadModel|bad file"] }, { phase: "Failed", reason: "EngineBadModel" }],
  [
    "a silent host",
    { phases: ["Ready"], reachable: "False", before: { phase: "Ready", readyReplicas: 1 } },
    {
      phase: "Degraded",
      reason: "HostUnreachable",
      message: "0 of 1 replicas ready; chat-0-aa on mac-1: the agent is silent",
      readyReplicas: 0,
    },
  ],
  [
    "no room",
    { unplaced: [unplaced] },
    {
      phase: "WaitingForCapacity",
      reason: "NoHostWithMemory",
      queuePosition: 2,
      waitingFor: "41.2 GiB of memory",
    },
  ],
  ["suspended", { spec: { suspend: true } }, { phase: "Suspended", desiredReplicas: 0, ready: "0/0" }],
  ["scaled to zero", { spec: { replicas: 0 } }, { phase: "Stopped", reason: "ManuallyScaledToZero" }],
  ["a missing Model", { model: undefined }, { phase: "Pending", reason: "ModelNotFound" }],
  [
    "a Model deleted under what serves",
    { model: undefined, phases: ["Ready"] },
    { phase: "Degraded", reason: "ModelNotFound", ready: "1/1" },
  ],
  [
    "a service scaled up whose Model was deleted",
    { model: undefined, spec: { replicas: 2 }, phases: ["Ready"] },
    { phase: "Degraded", reason: "ModelNotFound", ready: "1/2" },
  ],
  [
    "a taken name",
    { obstacle: { at: "nameTaken", message: "taken" } },
    { phase: "Failed", reason: "ServiceNameTaken" },
  ],
  [
    "a dying namespace",
    { obstacle: { at: "terminating" } },
    { phase: "Pending", reason: "NamespaceTerminating" },
  ],
])("%s", (_, given, expected) => {
  const status = statusOf(given);
  expect(status).toMatchObject({
    ...expected,
    observedGeneration: 3,
    selector: "metalbridge.dev/service=chat",
  });
  const types = (status.conditions ?? []).map(({ type }) => type);
  expect(types).toEqual([
    "Ready",
    "Available",
    "Progressing",
    "Degraded",
    "Placed",
    "SpecHonored",
    "Warnings",
    "KeyRequired",
    "Encrypted",
    "SpeedKnown",
  ]);
  for (const condition of status.conditions ?? []) expect(condition).toMatchObject({ observedGeneration: 3 });
  const { phase, reason } = status;
  expect(getCondition(status.conditions, "Ready")).toMatchObject({
    status: phase === "Ready" ? "True" : "False",
    reason,
  });
  const isDegraded = getCondition(status.conditions, "Degraded")?.status;
  expect(isDegraded === "True" || phase !== "Degraded").toBe(true);
  if (phase === "Ready" || phase === "Progressing" || phase === "Creating") expect(isDegraded).toBe("False");
});

test("a condition keeps its time while its status stays", () => {
  const first = statusOf({ phases: ["Starting|EngineStarting|loading"] });
  const old = (first.conditions ?? []).map((condition) => ({
    ...condition,
    lastTransitionTime: "2025-01-01T00:00:00Z",
  }));
  const next = statusOf({ phases: ["Ready"], before: { ...first, conditions: old } });
  const times = Object.fromEntries(
    (next.conditions ?? []).map(({ type, lastTransitionTime }) => [type, lastTransitionTime]),
  );
  expect(times).toMatchObject({ Available: NOW, Progressing: NOW, Placed: "2025-01-01T00:00:00Z" });
});

/**
 * Replicas as `<ordinal> <new|old> <phase>`, of a service whose status said before what `currentRevision`
 * was.
 */
function rolling(
  words: readonly string[],
  given: { before?: string; failing?: string; desired?: number; readyBefore?: number } = {},
) {
  const { before = "before", failing, desired = 3, readyBefore = 0 } = given;
  const service = {
    metadata: { name: "chat", namespace: "default", uid: "u1", generation: 3 },
    spec: inferenceServiceSpecSchema.parse({ modelRef: "tiny", replicas: desired }),
    status:
      before === "" ? {} : { currentRevision: before, readyReplicas: readyBefore, phase: "Progressing" },
  };
  const nothing = {
    replicas: [],
    slices: [],
    kubeServices: [],
    revisions: [],
    hosts: new Map(),
    sealing: DIRECT,
  };
  const observed = { service, model, ...nothing } as never;
  const newest = draftService(observed).input.revision ?? "";
  const replicas = words.map((word) => {
    const [ordinal = "", age, phase = ""] = word.split(" ");
    const revision = age === "new" ? newest : "before";
    return {
      metadata: { name: `chat-${ordinal}-${age}`, namespace: "default" },
      spec: { template: { hostName: "mac-1", revision, model: { source: "" } } },
      status: { phase, conditions: [{ type: "HostReachable", status: "True" }] },
    } as unknown as InferenceReplica;
  });
  const findings = {
    ...NO_ROLLOUT_FINDINGS,
    failing: new Map(failing === undefined ? [] : [[failing, "it fails"]]),
  };
  const draft = draftService({ ...(observed as object), replicas } as never, findings);
  const status = planStatus({ draft, unplaced: [], created: [], obstacle: { at: "none" } }, NOW);
  const { status: state, reason, message } = getCondition(status.conditions, "Progressing") ?? {};
  const { phase, ready, updatedReplicas, currentRevision } = status;
  const current = currentRevision === newest ? "new" : currentRevision;
  return { phase, ready, updatedReplicas, current, progressing: `${state} ${reason}: ${message}` };
}

test.each<[string, () => ReturnType<typeof rolling>, object]>([
  [
    "half way",
    () => rolling(["0 new Ready", "1 old Ready", "1 new Fetching", "2 old Ready"]),
    {
      phase: "Progressing",
      ready: "3/3",
      updatedReplicas: 2,
      current: "before",
      progressing:
        "True NewRevisionRollingOut: 2 of 3 updated, 1 ready, 2 old serving; chat-1-new on mac-1 is Fetching",
    },
  ],
  [
    "stopped",
    () => rolling(["0 old Ready", "0 new Failed", "1 old Ready", "2 old Ready"], { failing: "chat-0-new" }),
    {
      phase: "Degraded",
      ready: "3/3",
      updatedReplicas: 1,
      current: "before",
      progressing:
        "False RolloutStopped: 1 of 3 updated, 0 ready, 3 old serving; it fails; correct the spec, or roll back with: metalbridge rollout undo",
    },
  ],
  [
    "done",
    () => rolling(["0 new Ready", "1 new Ready", "2 new Ready"]),
    { phase: "Ready", current: "new", progressing: "False RolloutComplete: 3 of 3 updated" },
  ],
  [
    "the last slot, whose old replica made room, is no outage",
    () => rolling(["0 new Ready", "1 new Ready", "2 new Starting"], { readyBefore: 3 }),
    { phase: "Progressing", ready: "2/3" },
  ],
  [
    "as far as there is room: what serves is the new one",
    () => rolling(["0 new Ready", "1 new Ready"]),
    { ready: "2/3", current: "new", progressing: "True NewRevisionRollingOut: 2 of 3 updated" },
  ],
  [
    "the very first, on its way",
    () => rolling(["0 new Starting"], { before: "", desired: 1 }),
    {
      phase: "Creating",
      current: undefined,
      progressing: "True NewRevisionRollingOut: 1 of 1 updated, 0 ready; chat-0-new on mac-1 is Starting",
    },
  ],
  [
    "the very first, failing: there is nothing to go back to",
    () => rolling(["0 new Failed"], { before: "", desired: 1, failing: "chat-0-new" }),
    {
      phase: "Failed",
      progressing: "False RolloutStopped: 1 of 1 updated, 0 ready; it fails; correct the spec",
    },
  ],
  [
    "two that answer in one slot count once",
    () => rolling(["0 new Ready", "0 old Ready", "1 old Starting"], { desired: 2 }),
    { ready: "1/2" },
  ],
])("a rollout: %s", (_, roll, expected) => {
  expect(roll()).toMatchObject(expected);
});

test("a context that the model was not trained for is a warning, not a refusal", () => {
  const heads = { headCount: 4, headCountKV: 4, keyLength: 64, valueLength: 64 };
  const counts = { embeddingSize: 256, layerCount: 2, ...heads };
  const trained: Model = {
    ...model,
    spec: { ...model.spec, source: "hf://org/model" },
    status: {
      phase: "Ready",
      weightsBytes: 1e9,
      gguf: { architecture: "llama", contextLength: 4096, ...counts },
    } as never,
  };
  const warnings = (given: Case) => {
    const { phase, conditions } = statusOf({ phases: ["Ready"], model: trained, ...given });
    const found = getCondition(conditions, "Warnings");
    return `${phase} ${found?.status} ${found?.reason}: ${found?.message}`;
  };
  const spec = (contextSize: number, more = {}) => ({ spec: { contextSize, parallelSlots: 2, ...more } });
  expect(warnings(spec(8192))).toBe("Ready False NoWarnings: ");
  expect(warnings(spec(8194))).toBe(
    "Ready True ContextBeyondTraining: a request could use 4097 tokens, but the model was trained for 4096: the engine caps it there and takes the memory for all of them; a contextSize of 8192 is enough",
  );
  expect(warnings(spec(8192, { kvUnified: true }))).toContain("True ContextBeyondTraining: a request could");
  // Only its host can read the file, so the trained context is still unknown.
  expect(warnings({ ...spec(8194), model })).toBe("Ready False NoWarnings: ");
  expect(warnings({ ...spec(8194), model: undefined })).toContain("Unknown ModelNotFound");
});

test("a condition reports what clients reach without a key", () => {
  const keyRequired = (given: Case) => {
    const found = getCondition(statusOf(given).conditions, "KeyRequired");
    return `${found?.status} ${found?.reason}: ${found?.message}`;
  };
  const auth = { secretRef: { name: "keys" } };
  expect(keyRequired({ phases: ["Ready"] })).toMatch(/^False NoAuth: any client that reaches the Service /);
  const sealed = { spec: { endpoint: { transport: "Sealed" } } };
  expect(keyRequired(sealed)).toMatch(/^False NoAuth: any client of the gateway or the Service can use /);
  expect(keyRequired({ ...sealed, phases: ["Ready"] })).toMatch(/^False NoAuth: any client that reaches /);
  expect(keyRequired({ spec: { auth }, phases: ["Ready"] })).toBe(
    "False NoAuth: replicas of an older revision need no key, until the rollout has replaced them: chat-0-aa",
  );
  const closed = { spec: { auth }, phases: ["Ready"], auth: { secretName: "keys", key: "apiKey" } };
  expect(keyRequired(closed)).toBe(
    "True GateChecksKeys: the gate checks the key; without one: GET /health and OPTIONS requests",
  );
  expect(keyRequired({ ...closed, spec: { auth, endpoint: { gate: "Never" } } })).toBe(
    "True EngineChecksKeys: the engine checks the key; without one: /health, /v1/health and OPTIONS requests",
  );
  expect(keyRequired({ ...closed, model: undefined })).toContain("Unknown ModelNotFound");
  const asOllama = { ...model, spec: { source: "ollama://qwen3:8b" } } as Model;
  expect(keyRequired({ ...closed, model: asOllama })).toBe(
    "True GateChecksKeys: the gate checks the key; without one: GET /health; programs on the host reach the engine on 127.0.0.1",
  );
});

test("only a slot without a replica earns a priority class in the queue, not a rollout without room for its surge", () => {
  const since = { lastTransitionTime: "2025-12-31T22:00:00Z" };
  const before = { conditions: [{ type: "Placed", status: "False", reason: "r", message: "m", ...since }] };
  expect(statusOf({ unplaced: [unplaced], before }).effectivePriority).toBe(100_000);
  expect(statusOf({ phases: ["Ready"], unplaced: [unplaced], before }).effectivePriority).toBe(10_000);
});

test("fields of the queue are absent once a service no longer waits, which clears them", () => {
  const status = statusOf({ phases: ["Ready"] });
  expect(status).not.toHaveProperty("queuePosition");
  expect(status).not.toHaveProperty("waitingFor");
  expect(status.placement).toEqual({ chosen: [{ replica: "chat-0-aa", host: "mac-1" }] });
});

test("the reason for the choice of a host is read from its replica, not from the status of an earlier pass", () => {
  const annotations = {
    "metalbridge.dev/placement-reason": "weights on disk 1.00",
    "metalbridge.dev/placement-score": "2.5",
  };
  expect(statusOf({ phases: ["Ready"], annotations }).placement?.chosen).toEqual([
    { replica: "chat-0-aa", host: "mac-1", score: 2.5, reason: "weights on disk 1.00" },
  ]);
});

test.each<[string, object, object, object]>([
  [
    "as its header says",
    { gguf: { quantization: "Q4_K_M" } },
    { quantization: "Q8_0" },
    { quantization: "Q4_K_M" },
  ],
  ["as its Model says", {}, { quantization: "Q8_0" }, { quantization: "Q8_0" }],
  ["unknown", {}, {}, {}],
])("the model of a service is shown with its quantization and size: %s", (_, status, spec, expected) => {
  const read = {
    ...model,
    spec: { ...model.spec, ...spec },
    status: { ...status, sizeBytes: 5 },
  } as unknown as Model;
  expect(statusOf({ model: read }).model).toEqual({
    name: "tiny",
    source: "file:///models/tiny.gguf",
    sizeBytes: 5,
    ...expected,
  });
});

test("a slot without a host reports who preempted it, and what each host lacks", () => {
  const misses = [
    { host: "mac-1", code: "HostMemoryShort", message: "needs 41.2 GiB", shortBytes: 5 },
  ] as const;
  const preempted = { slot: 1, by: "default/other", host: "mac-2" };
  const given = { spec: { replicas: 2, mode: "embedding" }, phases: ["Ready"], preempted: [preempted] };
  const { conditions, ...status } = statusOf({ ...given, unplaced: [{ ...unplaced, ordinal: 1, misses }] });
  expect(status).toEqual({
    phase: "WaitingForCapacity",
    reason: "NoHostWithMemory",
    message: unplaced.message,
    observedGeneration: 3,
    mode: "embedding",
    runtime: "llamacpp",
    currentRevision: status.updateRevision,
    updateRevision: expect.stringMatching(/^\w+$/),
    replicas: 1,
    readyReplicas: 1,
    updatedReplicas: 1,
    desiredReplicas: 2,
    ready: "1/2",
    selector: "metalbridge.dev/service=chat",
    endpoint: expect.stringContaining("chat.default"),
    placement: {
      chosen: [{ replica: "chat-0-aa", host: "mac-1" }],
      preempted: [preempted],
      misses: [{ host: "mac-1", reason: "HostMemoryShort", message: "needs 41.2 GiB", shortBytes: 5 }],
      reasons: { HostMemoryShort: 1 },
    },
    queuePosition: 2,
    waitingFor: "41.2 GiB of memory",
    effectivePriority: 10_000,
    model: { name: "tiny", source: "file:///models/tiny.gguf" },
  });
});

test.each<[string, Case, object]>([
  ["known", {}, { mode: "chat", runtime: "llamacpp" }],
  ["new and not read yet", { model: { ...model, status: undefined } }, { model: { name: "tiny" } }],
  ["missing", { model: undefined, spec: { runtime: "omlx" } }, { runtime: "omlx", model: { name: "tiny" } }],
])("the runtime of a service whose Model is %s", (_, given, expected) => {
  expect(statusOf(given)).toMatchObject(expected);
});
