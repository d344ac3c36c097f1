import { expect, test } from "vitest";
import { aPod, aReplica, aService, condition, GIB, SINCE } from "../fixtures/objects.ts";
import { serviceRow } from "./service.ts";

const row = (service = aService("chat"), replicas = [aReplica("chat-0")], pods = [aPod("x", "x", "n")]) =>
  serviceRow({ service, replicas, pods: pods.filter(({ metadata }) => metadata.name !== "x") });

test("a service that serves has no attention, and its row names hosts, memory and speed", () => {
  const service = aService("chat", {
    phase: "Ready",
    readyReplicas: 1,
    desiredReplicas: 1,
    runtime: "llamacpp",
    on: "Hosts+Pods",
    endpoint: "http://chat.default:8080/v1/chat/completions",
    performance: { tokensPerSecond: 41.5, requestsInFlight: 2, requestsUnknown: false },
    conditions: [
      condition("Degraded", "False", "AsExpected"),
      condition("SpecHonored", "False", "FieldsNotHonored"),
    ],
  });
  const replica = aReplica(
    "chat-0",
    { phase: "Ready", memory: { footprintBytes: 9 * GIB } },
    { "spec.memory.claimBytes": 8 * GIB },
  );
  expect(row(service, [replica], [aPod("chat-x", "chat", "gpu-1")])).toMatchObject({
    state: { word: "Ready", level: "ok" },
    attention: undefined,
    hosts: ["gpu-1", "mac-1"],
    claimedBytes: 49 * GIB,
    performance: { tokensPerSecond: 41.5, requestsInFlight: 2 },
    rollout: undefined,
  });
});

test.each(["Idle", "Stopped", "Suspended"] as const)(
  "a service in phase %s is idle and has no attention",
  (phase) => {
    const service = aService("chat", {
      phase,
      desiredReplicas: 0,
      conditions: [condition("Degraded", "True", "X")],
    });
    expect(row(service)).toMatchObject({ state: { word: phase, level: "idle" }, attention: undefined });
  },
);

test("a download is its state, with the share of all replicas that fetch", () => {
  const fetching = (name: string, bytes: number) =>
    aReplica(name, { phase: "Fetching", progress: { bytes: bytes * GIB, totalBytes: 8 * GIB } });
  const service = aService("chat", { phase: "Creating", readyReplicas: 0, desiredReplicas: 2 });
  expect(row(service, [fetching("chat-0", 7), fetching("chat-1", 3)])).toMatchObject({
    state: { word: "Downloading 62 %", level: "busy" },
    attention: undefined,
  });
  const unknown = aReplica("chat-0", { phase: "Fetching", progress: { bytes: GIB } });
  expect(row(service, [unknown]).state.word).toBe("Downloading");
});

test("a rollout is progress, and a rollout that stopped needs a person", () => {
  const conditions = [condition("Progressing", "True", "NewRevisionRollingOut", "1 of 3 updated")];
  const status = { phase: "Progressing", readyReplicas: 3, desiredReplicas: 3, updatedReplicas: 1 } as const;
  expect(row(aService("chat", { ...status, conditions }))).toMatchObject({
    state: { word: "Rolling out 1/3", level: "busy" },
    attention: undefined,
    rollout: { updated: 1, desired: 3 },
  });
  const stopped = {
    ...status,
    phase: "Degraded",
    reason: "RolloutStopped",
    message: "new replicas do not become Ready",
    conditions: [
      condition("Progressing", "False", "RolloutStopped"),
      condition("Degraded", "True", "RolloutStopped", "new replicas do not become Ready"),
    ],
  } as const;
  expect(row(aService("chat", { ...stopped, conditions: [...stopped.conditions] }))).toMatchObject({
    state: { word: "Degraded", level: "warn" },
    attention: {
      level: "warn",
      reason: "RolloutStopped",
      message: "new replicas do not become Ready",
      command: "metalbridge rollout undo chat -n default",
      since: SINCE,
    },
    rollout: { updated: 1, desired: 3 },
  });
});

test("a service without memory waits with the message and the remedy of the catalog, and is bad until a replica serves", () => {
  const message = "needs 21.4 GiB, 18.0 GiB free on mac-3";
  const status = (readyReplicas: number) => ({
    phase: "WaitingForCapacity" as const,
    reason: "NoHostWithMemory",
    message,
    readyReplicas,
    desiredReplicas: 2,
    conditions: [condition("Placed", "False", "NoHostWithMemory", message)],
  });
  expect(row(aService("chat", status(0)))).toMatchObject({
    state: { word: "Waiting for memory", level: "bad" },
    attention: {
      level: "bad",
      message,
      since: SINCE,
      remedy: expect.stringMatching(/^use a smaller context/),
      command: undefined,
    },
  });
  expect(row(aService("chat", status(1)))).toMatchObject({
    state: { level: "warn" },
    attention: { level: "warn" },
  });
  expect(row(aService("chat", { ...status(0), reason: "MakingRoom" }))).toMatchObject({
    state: { word: "Making room", level: "busy" },
    attention: undefined,
  });
});

test("a service that a cordon keeps waiting says so, and offers to uncordon the host", () => {
  const misses = [{ host: "mac-1", reason: "HostCordoned", message: "cordoned" }];
  const status = { phase: "WaitingForCapacity", reason: "HostCordoned", message: "mac-1: cordoned" } as const;
  expect(row(aService("chat", { ...status, placement: { misses } }), [])).toMatchObject({
    state: { word: "Waiting: host cordoned", level: "bad" },
    attention: {
      reason: "HostCordoned",
      remedy: expect.stringMatching(/^uncordon the host/),
      command: undefined,
      cordoned: ["mac-1"],
    },
  });
  // Another host is nearer, but the cordoned one may have the memory.
  const short = { host: "mac-2", reason: "HostMemoryShort", message: "needs 40 GiB", shortBytes: GIB };
  const memory = { ...status, reason: "NoHostWithMemory", placement: { misses: [short, ...misses] } };
  expect(row(aService("chat", memory), []).attention).toMatchObject({
    remedy: expect.stringMatching(/^use a smaller context/),
    cordoned: ["mac-1"],
  });
  const draining = [{ host: "mac-1", reason: "HostCordoned", message: "draining" }];
  const { attention } = row(aService("chat", { ...status, placement: { misses: draining } }), []);
  expect(attention?.command).toBe("metalbridge uncordon mac-1");
  expect(attention?.cordoned).toBeUndefined();
});

test("a context that an engine cuts is known with the reason, and one that it serves in full is not", () => {
  const why = "the model was trained for 4096";
  const conditions = [condition("Warnings", "True", "ContextBeyondTraining", why)];
  const service = aService("chat", { phase: "Ready", conditions });
  const serving = (name: string, contextPerSlot: number) =>
    aReplica(
      name,
      { phase: "Ready", contextPerSlot },
      { "spec.template.engine.contextSize": 16_384, "spec.template.engine.parallelSlots": 2 },
    );
  expect(row(service, [serving("chat-0", 8_192), serving("chat-1", 4_096)]).contextCut).toEqual({
    served: 4_096,
    asked: 8_192,
    why,
  });
  expect(row(service, [serving("chat-0", 8_192)]).contextCut).toBeUndefined();
});

test("the remedy for a service that fits no host is that for the nearest host", () => {
  const misses = [{ host: "mac-2", reason: "HostUnreachable", message: "agent unreachable" }];
  const status = { phase: "WaitingForCapacity", reason: "NoHostFits", message: "" } as const;
  expect(row(aService("chat", { ...status, placement: { misses } }), []).attention).toMatchObject({
    reason: "NoHostFits",
    remedy: expect.stringMatching(/^check that the host is powered on/),
    command: undefined,
  });
});

test("a remedy that the message has in its own words is not repeated", () => {
  const message = "no renewal of the Lease; check that the host is awake";
  const status = { phase: "Degraded", reason: "HostUnreachable", message } as const;
  expect(row(aService("chat", status), []).attention).toMatchObject({ message, remedy: undefined });
});

test("the command for a missing runtime is the one in the message", () => {
  const message = "no host has llamacpp (install: brew install llama.cpp); mac-1: llamacpp is not installed";
  const status = { phase: "WaitingForCapacity", reason: "HostRuntimeMissing", message } as const;
  expect(row(aService("chat", status), []).attention?.command).toBe("brew install llama.cpp");
});

test("a replica that waits for what a person must do is the attention of a new service, one that waits for a retry is not", () => {
  const service = aService("chat", { phase: "Creating", readyReplicas: 0, desiredReplicas: 1 });
  const waiting = (reason: string, message: string) =>
    aReplica("chat-0", {
      phase: "Waiting",
      reason,
      message,
      transitions: [{ at: SINCE, phase: "Waiting", reason }],
    });
  const missing = waiting("SecretMissing", "Secret hf in namespace default does not exist");
  expect(row(service, [missing])).toMatchObject({
    state: { word: "Waiting", level: "bad" },
    attention: {
      reason: "SecretMissing",
      since: SINCE,
      command: "kubectl create secret generic NAME -n default --from-literal=apiKey=…",
    },
  });
  expect(row(service, [waiting("MemoryPressure", "under pressure")]).state.word).toBe("Waiting for memory");
  expect(row(service, [waiting("SourceChanged", "changed")]).attention).toBeUndefined();
});

test("the message of a pod problem is not followed by the same remedy", () => {
  const message = "0 of 1 pods ready; engine exited with 1. To do: read its log";
  const conditions = [condition("Degraded", "True", "PodCrashing", message)];
  const service = aService("chat", {
    phase: "Degraded",
    readyReplicas: 0,
    reason: "PodCrashing",
    message,
    conditions,
  });
  expect(row(service)).toMatchObject({
    state: { level: "bad" },
    attention: {
      message,
      remedy: undefined,
      command: "kubectl logs -l metalbridge.dev/service=chat --previous -n default",
    },
  });
});

test("a service without a status is pending, and one that is deleted has no attention", () => {
  expect(row(aService("chat"), [])).toMatchObject({
    state: { word: "Pending", level: "busy" },
    attention: undefined,
  });
  const deleted = aService("chat", { phase: "Failed" }, { "metadata.deletionTimestamp": SINCE });
  expect(row(deleted)).toMatchObject({ state: { word: "Deleting" }, attention: undefined });
});
