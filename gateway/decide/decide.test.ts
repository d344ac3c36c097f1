import { expect, test, vi } from "vitest";
import { inferenceServiceSchema } from "../../src/api/inference-service/index.ts";
import type { EndpointSlice } from "../../src/kube/objects.ts";
import type { Authentication } from "../keys/authentication.ts";
import { anonymous } from "../keys/authenticator.ts";
import { createHeldBodies } from "../limits/bodies.ts";
import type { Admission, Limits } from "../limits/limits.ts";
import { Models } from "../models/models.ts";
import { ModelQueues } from "../queue/queues.ts";
import { Requests } from "../requests.ts";
import { manualClock } from "../testing/manual-clock.ts";
import { decodeAssignment } from "./assignment.ts";
import { Decider, type DecisionPorts, type Question } from "./decide.ts";

interface Given {
  readonly spec?: object;
  readonly status?: object;
  readonly isReady?: boolean;
  readonly authentication?: Authentication;
  readonly admission?: Admission;
  readonly upstreamTls?: DecisionPorts["upstreamTls"];
  readonly annotations?: Record<string, string>;
  readonly hasKeyPair?: boolean;
}

const SEALED = { "metalbridge.dev/fingerprints": "ab".repeat(32) };

/** One service, apps/chat, with one replica and one slot. */
function rig({
  spec = {},
  status = {},
  isReady = true,
  authentication,
  admission,
  upstreamTls = { hasTrust: false, hasCertificate: false },
  annotations = {},
  hasKeyPair = false,
}: Given = {}) {
  const clock = manualClock(Date.parse("2026-11-01T12:00:00Z"));
  const models = new Models();
  const queues = new ModelQueues(models, clock);
  const metadata = { namespace: "apps", name: "chat", creationTimestamp: "2026-01-01T00:00:00Z" };
  const service = inferenceServiceSchema.parse({
    metadata,
    spec: { modelRef: "m", runtime: "llamacpp", ...spec },
    status,
  });
  models.setService("apps/chat", service);
  const report = (next: object) => {
    models.setService("apps/chat", inferenceServiceSchema.parse({ ...service, status: next }));
    queues.refresh("apps/chat");
  };
  const slice: EndpointSlice = {
    metadata: {
      namespace: "apps",
      name: "s",
      annotations,
      labels: { "metalbridge.dev/service": "chat", "metalbridge.dev/host": "mac-1" },
    },
    addressType: "IPv4",
    endpoints: [{ addresses: ["192.0.2.1"], conditions: { ready: isReady } }],
    ports: [{ name: "http", port: 8080 }],
  };
  models.setSlice("apps/s", slice, undefined);
  queues.setAccepted("apps/chat", ["192.0.2.1:8080"]);
  const ended: string[] = [];
  const bodies = createHeldBodies(1_000);
  const limits: Limits = {
    admit: async () => admission ?? { at: "admitted" },
    answered: () => undefined,
    ended: (id) => void ended.push(id),
  };
  const { signal } = new AbortController();
  const requests = new Requests({ queues, limits, bodies, onAdmitted: () => {}, clock, signal });
  const decider = new Decider({
    models,
    queues,
    requests,
    authenticate: async () => authentication ?? { at: "authenticated", caller: anonymous },
    bodies,
    engineKey: async (model) => (model.engineKey === undefined ? undefined : "engine-key"),
    userOf: () => undefined,
    upstreamTls,
    hasKeyPair: () => hasKeyPair,
    clock,
    random: () => 0,
  });
  const ask = (given: Partial<Question> = {}) =>
    decider.decide({
      id: "r1",
      method: "POST",
      path: "/v1/chat/completions",
      model: "chat",
      isBodyInvalid: false,
      contentEncoding: undefined,
      bodyBytes: 2,
      isStream: undefined,
      bodyStart: "{}",
      headers: {},
      signal: new AbortController().signal,
      ...given,
    });
  const announce = (id: string, bytes?: number) =>
    decider.refusalByHeaders({
      id,
      method: "POST",
      path: "/v1/chat/completions",
      contentEncoding: undefined,
      headers: bytes === undefined ? {} : { "content-length": String(bytes) },
    });
  return { clock, queues, requests, ask, announce, ended, report };
}

test("a request gets the replica of its model, and a ticket with its assignment", async () => {
  const { ask } = rig({ spec: { auth: { secretRef: { name: "s" } } } });
  const decision = await ask();
  if (decision.at !== "granted") throw new Error(JSON.stringify(decision));
  expect(decision.grant).toMatchObject({
    cluster: "apps/chat",
    addresses: ["192.0.2.1:8080"],
    authorization: "Bearer engine-key",
  });
  expect(decodeAssignment(decision.grant.ticket)).toMatchObject({
    caller: "anonymous",
    model: "apps/chat",
    host: "mac-1",
  });
});

test.each([
  ["llamacpp", true, true],
  ["llamacpp", undefined, true],
  ["llamacpp", false, false],
  ["vllm", true, false],
  ["ollama", true, false],
])("%s, stream %s: the engine is asked to close the connection: %s", async (runtime, isStream, expected) => {
  const { ask } = rig({ status: { runtime } });
  expect(await ask({ isStream })).toMatchObject({ grant: { closesConnection: expected } });
});

const forbidden: Authentication = {
  at: "authenticated",
  caller: { ...anonymous, mayUse: async () => "forbidden" },
};
const unreviewed: Authentication = {
  at: "authenticated",
  caller: { ...anonymous, mayUse: async () => "unavailable" },
};
const over = (limit: "requestsPerMinute" | "tokensPerDay"): Admission => ({
  at: "refused",
  limit,
  retryAfterSeconds: 3,
  message: "Too many.",
});

test.each([
  ["no such model", {}, { model: "other" }, "model_not_found", undefined],
  ["a model of another tenant", { authentication: forbidden }, {}, "model_not_found", undefined],
  ["a token that cannot be reviewed", { authentication: unreviewed }, {}, "gateway_starting", 2],
  ["a limit", { admission: over("requestsPerMinute") }, {}, "rate_limit_exceeded", 3],
  ["a spent budget", { admission: over("tokensPerDay") }, {}, "insufficient_quota", undefined],
  ["a path that the engine lacks", {}, { path: "/v1/audio/speech" }, "unknown_path", undefined],
  ["a stopped service", { spec: { replicas: 0 }, isReady: false }, {}, "model_unavailable", undefined],
  [
    "an engine that serves HTTPS, without a CA",
    { spec: { endpoint: { tls: { secretRef: { name: "t" } } } } },
    {},
    "model_unavailable",
    undefined,
  ],
  [
    "a deadline that is no time",
    {},
    { headers: { "x-request-deadline": "soon" } },
    "invalid_deadline",
    undefined,
  ],
] as const)("%s is refused", async (_, given, question, code, retryAfterSeconds) => {
  const decision = await rig(given).ask(question);
  expect(decision).toMatchObject({ at: "refused", refusal: { code } });
  expect(decision.at === "refused" ? decision.refusal.retryAfterSeconds : 0).toBe(retryAfterSeconds);
  // If the caller or the owner is the cause, the service has not failed.
  const service = code === "model_unavailable" && !("isReady" in given) ? "apps/chat" : undefined;
  expect(decision.at === "refused" ? decision.refusal.service : "granted").toBe(service);
});

test("a service with HTTPS is served by a gateway that can verify it, and has a certificate where one is required", async () => {
  const asked = (tls: object, hasCertificate: boolean) => {
    const spec = { endpoint: { tls: { secretRef: { name: "t" }, ...tls } } };
    return rig({ spec, upstreamTls: { hasTrust: true, hasCertificate } }).ask();
  };
  const granted = { at: "granted", grant: { cluster: "apps/chat" } };
  const mutual = { clientCASecretRef: { name: "ca" } };
  expect(await asked({}, false)).toMatchObject(granted);
  expect(await asked(mutual, true)).toMatchObject(granted);
  expect(await asked(mutual, false)).toMatchObject({
    refusal: {
      code: "model_unavailable",
      service: "apps/chat",
      message: expect.stringContaining("--upstream-cert"),
    },
  });
});

test.each([
  ["only sealed replicas, without a certificate for them", SEALED, false, "model_unavailable"],
  ["sealed replicas, with a certificate for them", SEALED, true, undefined],
  ["direct replicas, without a certificate for sealed ones", {}, false, undefined],
] as const)("a service with %s", async (_, annotations, hasKeyPair, code) => {
  const decision = await rig({ annotations, hasKeyPair }).ask();
  expect(decision).toMatchObject(
    code === undefined
      ? { at: "granted" }
      : {
          refusal: {
            code,
            service: "apps/chat",
            retryAfterSeconds: 5,
            message: expect.stringContaining("metalbridge-transport"),
          },
        },
  );
});

test("a model that does not become ready in time is refused with its phase, and its limit is returned", async () => {
  const { clock, ask, ended } = rig({ isReady: false, status: { phase: "WaitingForCapacity" } });
  const held = ask({ headers: { "x-request-deadline": "10" } });
  await new Promise(setImmediate);
  clock.advance(10_000);
  expect(await held).toMatchObject({
    refusal: {
      code: "queue_timeout",
      service: "apps/chat",
      message: expect.stringContaining("its phase is WaitingForCapacity"),
    },
  });
  expect(ended).toEqual(["r1/1"]);
});

const degraded = (status: "True" | "False") => ({
  ...{ type: "Degraded", status, reason: "Any", message: "", lastTransitionTime: "2026-01-01T00:00:00Z" },
});
const missing = {
  phase: "Pending",
  reason: "BackendRuntimeNotFound",
  message: "BackendRuntime secret-name does not exist",
  conditions: [degraded("True")],
};

test.each([
  ["a missing BackendRuntime", missing, "BackendRuntimeNotFound: The service names a BackendRuntime"],
  ["a missing Model", { ...missing, reason: "ModelNotFound" }, "ModelNotFound: A Model that the service"],
  ["rejected objects", { ...missing, reason: "QuotaExceeded" }, "QuotaExceeded: "],
  [
    "a terminal failure",
    { ...missing, phase: "Failed", reason: "ModelFailed" },
    "ModelFailed: The Model failed",
  ],
])(
  "a service that starts nothing because of %s is refused at once, also what waits",
  async (_, status, cause) => {
    const refused = {
      refusal: { code: "model_unavailable", service: "apps/chat", message: expect.stringContaining(cause) },
    };
    const { ask, report } = rig({ isReady: false, status: { phase: "Pending" } });
    const held = ask();
    await new Promise(setImmediate);
    report(status);
    expect(await held).toMatchObject(refused);
    const decision = await ask();
    expect(decision).toMatchObject(refused);
    expect(JSON.stringify(decision)).not.toContain("secret-name");
  },
);

test.each([
  ["no status yet", {}, "no controller has processed it yet"],
  [
    "a Model that is read",
    { ...missing, reason: "ModelNotReady", conditions: [degraded("False")] },
    "ModelNotReady: ",
  ],
  ["a queue for memory", { phase: "WaitingForCapacity", reason: "NoHostWithMemory" }, "Insufficient memory"],
  ["a crash", { ...missing, phase: "Degraded", reason: "EngineCrashed" }, "its phase is Degraded"],
  [
    "an idle replica",
    { idle: { state: "Idle", since: "2026-01-01T00:00:00Z" }, phase: "Idle" },
    "it is idle and was not woken",
  ],
])(
  "a service that can still start after %s holds requests, and names the cause when they time out",
  async (_, status, cause) => {
    const { clock, queues, ask } = rig({ isReady: false, status });
    const held = ask();
    await new Promise(setImmediate);
    expect(queues.get("apps/chat")?.waiting).toBe(1);
    clock.advance(300_000);
    expect(await held).toMatchObject({
      refusal: { code: "queue_timeout", message: expect.stringContaining(cause) },
    });
  },
);

test("a caller who does not want to wait finds a busy service, which has not failed", async () => {
  const { ask, clock } = rig({ spec: { parallelSlots: 1 } });
  await ask();
  const impatient = ask({ id: "r2", headers: { "x-request-deadline": "1" } });
  await new Promise(setImmediate);
  clock.advance(1_000);
  expect(await impatient).toMatchObject({ refusal: { code: "queue_timeout", service: undefined } });
});

const IDLE = { phase: "Idle", idle: { state: "Idle", since: "2026-01-01T00:00:00Z" } };
const WAKING = { ...IDLE, phase: "Progressing", idle: { ...IDLE.idle, state: "Waking" } };

test.each([
  ["suspended", { spec: { suspend: true } }, undefined, undefined],
  ["without replicas", { spec: { replicas: 0 } }, undefined, undefined],
  ["stopped", { status: { phase: "Stopped" } }, undefined, undefined],
  ["failed", { status: { phase: "Failed", reason: "ModelFailed" } }, undefined, "apps/chat"],
  // The caller does not wait for the model to load.
  ["idle", { status: IDLE }, 5, undefined],
  ["waking", { status: WAKING }, 5, undefined],
  ["starting", { status: { phase: "Progressing" } }, 5, "apps/chat"],
  // Nothing has woken it in the time that the gateway waits.
  ["idle for too long", { status: IDLE }, 300, "apps/chat"],
  ["waking for too long", { status: WAKING }, 300, "apps/chat"],
])("the objective of a service that is %s counts only an outage", async (_, given, seconds, service) => {
  const { ask, clock } = rig({ isReady: false, ...given });
  const asked = ask({ headers: seconds === undefined ? {} : { "x-request-deadline": `${seconds}` } });
  await new Promise(setImmediate);
  clock.advance((seconds ?? 0) * 1_000);
  expect(await asked).toMatchObject({ refusal: { service } });
});

test("a service that serves while something is missing gets requests", async () => {
  expect(await rig({ status: missing }).ask()).toMatchObject({ at: "granted" });
});

test("a full queue asks clients to retry after at most 60 s, which their libraries still honor", async () => {
  const { ask, queues } = rig();
  for (let index = 0; index <= 256; index += 1) void ask({ id: `q${index}` });
  const refused = { refusal: { code: "queue_full", service: "apps/chat", retryAfterSeconds: 60 } };
  expect(await ask({ id: "last" })).toMatchObject(refused);
  expect(queues.get("apps/chat")?.waiting).toBe(256);
});

test("a question that Envoy repeats does not wait for its own slot", async () => {
  const { ask, queues, ended } = rig();
  expect((await ask()).at).toBe("granted");
  expect((await ask()).at).toBe("granted");
  expect(queues.get("apps/chat")?.inFlight).toBe(1);
  expect(ended).toEqual(["r1/1"]);
});

test("an answer that does not reach Envoy frees its slot, also if the client left before the question was read", async () => {
  const { queues, ask, ended } = rig();
  const gone = AbortSignal.abort();
  expect(await ask({ signal: gone })).toEqual({ at: "left" });
  expect(queues.get("apps/chat")?.inFlight).toBe(0);
  const asked = new AbortController();
  expect(await ask({ id: "r2", signal: asked.signal })).toMatchObject({ at: "granted" });
  asked.abort();
  expect(queues.get("apps/chat")?.inFlight).toBe(0);
  expect(ended).toEqual(["r2/1"]);
});

test.each([
  [true, true],
  [false, false],
  [undefined, false],
])("a body with isStream %s counts as a stream: %s", async (isStream, expected) => {
  const { requests, ask } = rig();
  const start = vi.spyOn(requests, "start");
  await ask({ isStream });
  expect(start).toHaveBeenCalledWith(expect.objectContaining({ isStream: expected }));
});

test("the lost answer to an earlier question about a request leaves the slot of the later one", async () => {
  const { queues, ask } = rig();
  const first = new AbortController();
  await ask({ signal: first.signal });
  expect(await ask()).toMatchObject({ at: "granted" });
  first.abort();
  expect(queues.get("apps/chat")?.inFlight).toBe(1);
});

test("large bodies of one key wait for each other, and count by their size once they are there", async () => {
  const { ask, announce } = rig();
  for (const [id, bytes] of [["a", 1_000], ["b"], ["c"], ["r1"]] as const)
    expect(await announce(id, bytes)).toBeUndefined();
  const refusal = { code: "rate_limit_exceeded", retryAfterSeconds: 1 };
  expect(await announce("d", 20)).toMatchObject({ at: "refused", dialect: "openai", refusal });
  await ask({ bodyBytes: 20 });
  expect(await announce("d", 20)).toBeUndefined();
});
