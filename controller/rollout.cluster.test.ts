import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { getCondition } from "../src/api/conditions.ts";
import { API_VERSION } from "../src/api/group.ts";
import type { InferenceReplica } from "../src/api/inference-replica.ts";
import type { InferenceService } from "../src/api/inference-service/index.ts";
import { BACKEND_RUNTIMES } from "../src/api/kinds.ts";
import { parseRevisionData } from "../src/capacity/revision-data.ts";
import { CONTROLLER_REVISIONS } from "../src/kube/kinds.ts";
import { must } from "../test/bed/must.ts";
import { type Bench, inferenceService, startBench } from "../test/controller/bench.ts";
import { watchCounts } from "../test/controller/watch-counts.ts";

const WAIT = { timeout: 60_000, interval: 50 };
const BAD_CONTEXT = 1_024;
const BAD_THREADS = "13";
const NEVER_HEALTHY_CONTEXT = 1_152;
let bench: Bench;
beforeAll(async () => {
  bench = await startBench();
  // An engine with the one context, or with these threads, never works, with the other it never passes its probes.
  const statusOf = ({ spec }: InferenceReplica): InferenceReplica["status"] => {
    const { contextSize } = spec.template.engine;
    if (contextSize === BAD_CONTEXT || spec.template.engine.extraArgs?.includes(BAD_THREADS))
      return { phase: "Failed", reason: "EngineBadModel", message: "cannot load it" };
    if (contextSize !== NEVER_HEALTHY_CONTEXT) return undefined;
    return { phase: "Backoff", reason: "EngineNeverHealthy", message: "1 s were not enough", restarts: 2 };
  };
  // Room for two replicas of 5 GiB on each.
  for (const host of ["mac-1", "mac-2", "mac-3"]) await bench.agent(host, { budgetGib: 12, statusOf });
});
afterAll(() => bench?.[Symbol.asyncDispose]());

async function namespace(name: string): Promise<string> {
  await bench.cluster.kubectl(["create", "namespace", name]);
  await bench.model(name, "tiny");
  return name;
}

const patch = (ns: string, spec: object) =>
  bench.cluster.kubectl(["patch", "isvc", "chat", "-n", ns, "--type=merge", "-p", JSON.stringify({ spec })]);

const progressing = ({ status }: InferenceService) => {
  const condition = getCondition(status?.conditions, "Progressing");
  return `${condition?.status} ${condition?.reason}`;
};

const until = (ns: string, words: string) =>
  bench.serviceUntil(ns, "chat", (service) => {
    expect(progressing(service)).toBe(words);
    expect(service.status?.observedGeneration).toBe(service.metadata.generation);
  });

const live = async (ns: string) =>
  (await bench.replicas(ns)).filter(({ metadata }) => metadata.deletionTimestamp === undefined);

async function revisions(ns: string): Promise<Record<string, number>> {
  const result = await bench.client.list(CONTROLLER_REVISIONS, { namespace: ns });
  if (!result.ok) throw new Error(result.error.message);
  const named = result.value.items.map(({ revision, data }) => {
    const context = parseRevisionData(data)?.spec.contextSize ?? "none";
    return [String(context), revision] as const;
  });
  return Object.fromEntries(named);
}

test("a change goes from slot to slot with one replica more, and never with one less", async () => {
  const ns = await namespace("surge");
  await bench.apply(inferenceService(ns, "chat", { replicas: 3, rollout: { maxUnavailable: 0 } }));
  const first = await until(ns, "False RolloutComplete");
  expect(first.status?.currentRevision).toBe(first.status?.updateRevision);
  const counts = watchCounts(bench.connection, ns);
  await patch(ns, { contextSize: 2_048 });
  const last = await until(ns, "False RolloutComplete");
  expect(last.status).toMatchObject({ phase: "Ready", updatedReplicas: 3, ready: "3/3" });
  expect(last.status?.updateRevision).not.toBe(first.status?.updateRevision);
  expect(counts.stop()).toEqual({ fewestReady: 3, mostLive: 4 });
  const contexts = (await live(ns)).map(({ spec }) => spec.template.engine.contextSize);
  expect(contexts).toEqual([2_048, 2_048, 2_048]);
  await bench.cluster.kubectl(["delete", "isvc", "chat", "-n", ns]);
});

test("limits in percent are those of a Deployment: surge rounded up, unavailable down", async () => {
  const ns = await namespace("percent");
  const rollout = { maxSurge: "34%", maxUnavailable: "32%" };
  await bench.apply(inferenceService(ns, "chat", { replicas: 3, rollout }));
  await until(ns, "False RolloutComplete");
  const counts = watchCounts(bench.connection, ns);
  await patch(ns, { contextSize: 2_048 });
  await until(ns, "False RolloutComplete");
  expect(counts.stop()).toEqual({ fewestReady: 3, mostLive: 5 });
  await bench.cluster.kubectl(["delete", "isvc", "chat", "-n", ns]);
});

test("a failing revision stops the rollout; added replicas are of the old one; a correction resumes it", async () => {
  const ns = await namespace("failing");
  await bench.apply(inferenceService(ns, "chat", { replicas: 2 }));
  await until(ns, "False RolloutComplete");
  const before = (await live(ns)).map(({ metadata }) => metadata.uid);
  await patch(ns, { contextSize: BAD_CONTEXT });
  const stopped = await until(ns, "False RolloutStopped");
  expect(stopped.status).toMatchObject({ phase: "Degraded", reason: "RolloutStopped", ready: "2/2" });
  expect(stopped.status?.message).toMatch(
    /^1 of 2 updated, 0 ready, 2 old serving; chat-0-\w+ on mac-\d is Failed \(EngineBadModel: cannot load it\); correct the spec/,
  );
  expect(getCondition(stopped.status?.conditions, "Degraded")).toMatchObject({
    status: "True",
    reason: "RolloutStopped",
  });
  expect((await live(ns)).map(({ metadata }) => metadata.uid)).toEqual(expect.arrayContaining(before));

  await patch(ns, { replicas: 3 });
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.ready).toBe("3/3"));
  const bad = (await live(ns)).filter(({ spec }) => spec.template.engine.contextSize === BAD_CONTEXT);
  expect(bad).toHaveLength(1);

  await patch(ns, { contextSize: 2_048 });
  const last = await until(ns, "False RolloutComplete");
  expect(last.status).toMatchObject({ phase: "Ready", ready: "3/3", updatedReplicas: 3 });
  await vi.waitFor(async () => {
    const contexts = (await live(ns)).map(({ spec }) => spec.template.engine.contextSize);
    expect(contexts).toEqual([2_048, 2_048, 2_048]);
  }, WAIT);
  await bench.cluster.kubectl(["delete", "isvc", "chat", "-n", ns]);
});

test("an old replica that is lost while a new one fails is recreated, and the failing one stays", async () => {
  const ns = await namespace("refilled");
  await bench.apply(inferenceService(ns, "chat"));
  await until(ns, "False RolloutComplete");
  const [before] = await live(ns);
  await patch(ns, { contextSize: BAD_CONTEXT });
  await until(ns, "False RolloutStopped");
  await bench.cluster.kubectl(["delete", "irep", "-n", ns, before?.metadata.name ?? ""]);
  await vi.waitFor(async () => {
    const contexts = (await live(ns)).map(({ spec }) => spec.template.engine.contextSize);
    expect(contexts.sort()).toEqual([BAD_CONTEXT, before?.spec.template.engine.contextSize].sort());
  }, WAIT);
  const service = await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.ready).toBe("1/1"));
  expect(progressing(service)).toBe("False RolloutStopped");
  expect(service.status?.currentRevision).toBe(before?.spec.template.revision);
  await bench.cluster.kubectl(["delete", "isvc", "chat", "-n", ns]);
});

test("going back uses the old revision again, with the highest number, and restarts nothing that is of it", async () => {
  const ns = await namespace("undone");
  await bench.apply(inferenceService(ns, "chat", { replicas: 2, contextSize: 4_096 }));
  await until(ns, "False RolloutComplete");
  const before = (await live(ns)).map(({ metadata }) => metadata.uid);
  await patch(ns, { contextSize: BAD_CONTEXT });
  await until(ns, "False RolloutStopped");
  expect(await revisions(ns)).toEqual({ 4096: 1, 1024: 2 });
  await patch(ns, { contextSize: 4_096 });
  const back = await until(ns, "False RolloutComplete");
  expect(back.status?.phase).toBe("Ready");
  await vi.waitFor(async () => expect(await revisions(ns)).toEqual({ 4096: 3, 1024: 2 }), WAIT);
  await vi.waitFor(async () => {
    expect((await bench.replicas(ns)).map(({ metadata }) => metadata.uid)).toEqual(before);
  }, WAIT);
  await bench.cluster.kubectl(["delete", "isvc", "chat", "-n", ns]);
});

test("probes that can never pass stop a rollout too, and setting probes alone changes nothing", async () => {
  const ns = await namespace("probed");
  await bench.apply(inferenceService(ns, "chat", { rollout: { drainSeconds: 0 } }));
  await until(ns, "False RolloutComplete");
  const [before] = await live(ns);
  const probeOverrides = { startup: { periodSeconds: 1, failureThreshold: 1 } };
  await patch(ns, { probeOverrides });
  await vi.waitFor(async () => expect((await live(ns))[0]?.spec.probes.startSeconds).toBe(1), WAIT);
  await until(ns, "False RolloutComplete");
  await patch(ns, { contextSize: NEVER_HEALTHY_CONTEXT });
  const stopped = await until(ns, "False RolloutStopped");
  expect(stopped.status?.message).toContain("exited 2 times (EngineNeverHealthy: 1 s were not enough)");
  expect(stopped.status?.ready).toBe("1/1");
  expect((await live(ns)).map(({ metadata }) => metadata.uid)).toContain(before?.metadata.uid);
  await bench.cluster.kubectl(["delete", "isvc", "chat", "-n", ns]);
});

test("no more old revisions are kept than revisionHistoryLimit", async () => {
  const ns = await namespace("history");
  await bench.apply(inferenceService(ns, "chat", { contextSize: 512, rollout: { revisionHistoryLimit: 1 } }));
  await until(ns, "False RolloutComplete");
  for (const contextSize of [640, 768, 896]) {
    await patch(ns, { contextSize });
    await until(ns, "False RolloutComplete");
  }
  await vi.waitFor(async () => expect(await revisions(ns)).toEqual({ 768: 3, 896: 4 }), WAIT);
  await bench.cluster.kubectl(["delete", "isvc", "chat", "-n", ns]);
});

test("what needs no restart restarts nothing", async () => {
  const ns = await namespace("calm");
  await bench.apply(inferenceService(ns, "chat", { replicas: 2 }));
  const first = await until(ns, "False RolloutComplete");
  const before = (await live(ns)).map(({ metadata }) => metadata.uid);
  await patch(ns, {
    priority: "high",
    hostLostSeconds: 77,
    evictionProtection: true,
    rollout: { drainSeconds: 0, maxSurge: 2 },
    probeOverrides: {
      liveness: { timeoutSeconds: 2, failureThreshold: 7 },
      startup: { failureThreshold: 9 },
    },
  });
  await bench.cluster.kubectl(["label", "isvc", "chat", "-n", ns, "team=blue"]);
  await vi.waitFor(async () => {
    for (const { spec } of await live(ns)) {
      expect(spec).toMatchObject({ priority: "high", hostLostSeconds: 77, drainSeconds: 0 });
      expect(spec.probes).toEqual({ startSeconds: 90, timeoutSeconds: 2, failureThreshold: 7 });
    }
  }, WAIT);
  const last = await until(ns, "False RolloutComplete");
  expect(last.status?.updateRevision).toBe(first.status?.updateRevision);
  expect((await bench.replicas(ns)).map(({ metadata }) => metadata.uid)).toEqual(before);
  await bench.cluster.kubectl(["delete", "isvc", "chat", "-n", ns]);
});

test("several changes in a row, a new size and a pause on the way end in the last of them", async () => {
  const ns = await namespace("hasty");
  await bench.apply(inferenceService(ns, "chat", { replicas: 3 }));
  await until(ns, "False RolloutComplete");
  for (const contextSize of [512, 640, BAD_CONTEXT, 768]) await patch(ns, { contextSize });
  await patch(ns, { replicas: 2, contextSize: 896 });
  await patch(ns, { suspend: true });
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Suspended"));
  await patch(ns, { suspend: false });
  const last = await until(ns, "False RolloutComplete");
  expect(last.status).toMatchObject({ phase: "Ready", ready: "2/2", replicas: 2 });
  expect((await live(ns)).map(({ spec }) => spec.template.engine.contextSize)).toEqual([896, 896]);
  await patch(ns, { contextSize: 2_048 });
  await bench.cluster.kubectl(["delete", "isvc", "chat", "-n", ns]);
  expect(await bench.replicas(ns)).toEqual([]);
});

test("nothing that serves is ended for a replica that would fit nowhere", async () => {
  const ns = await namespace("unplaceable");
  await bench.apply(inferenceService(ns, "chat"));
  await until(ns, "False RolloutComplete");
  const [before] = await live(ns);
  await bench.model(ns, "huge", { gib: 200, source: "https://models.example/huge.gguf" });
  await patch(ns, { modelRef: "huge" });
  const service = await bench.serviceUntil(ns, "chat", ({ status }) =>
    expect(getCondition(status?.conditions, "Placed")?.status).toBe("False"),
  );
  expect(progressing(service)).toBe("True NewRevisionRollingOut");
  expect(service.status?.message).toMatch(/^0 of 1 updated, 1 old serving; no host for slot 0: /);
  expect((await bench.replicas(ns)).map(({ metadata }) => metadata.uid)).toEqual([before?.metadata.uid]);
  await patch(ns, { modelRef: "tiny" });
  await until(ns, "False RolloutComplete");
  expect((await bench.replicas(ns)).map(({ metadata }) => metadata.uid)).toEqual([before?.metadata.uid]);
  await bench.cluster.kubectl(["delete", "isvc", "chat", "-n", ns]);
});

test("without room for both, the old replica is stopped first, and Events say so", async () => {
  const ns = await namespace("tight");
  const placement = { hosts: ["mac-1"] };
  await bench.apply(inferenceService(ns, "chat", { replicas: 2, placement }));
  await until(ns, "False RolloutComplete");
  const counts = watchCounts(bench.connection, ns);
  await patch(ns, { contextSize: 2_048 });
  const last = await until(ns, "False RolloutComplete");
  expect(last.status?.ready).toBe("2/2");
  expect(counts.stop()).toEqual({ fewestReady: 1, mostLive: 2 });
  await vi.waitFor(async () => {
    const events = await bench.cluster.kubectl([
      "get",
      "events",
      "-n",
      ns,
      "-o",
      "jsonpath={range .items[?(@.involvedObject.name=='chat')]}{.reason}: {.message}{'\\n'}{end}",
    ]);
    expect(events).toMatch(/ReplicaRemoved: draining chat-\d-\w+ on mac-1: frees memory for revision/);
    expect(events).toMatch(/ReplicaCreated: chat-\d-\w+ on mac-1: revision \w+/);
    expect(events).toMatch(/NewRevisionRollingOut: /);
    expect(events).toMatch(/RolloutComplete: 2 of 2 updated/);
  }, WAIT);
  await bench.cluster.kubectl(["delete", "isvc", "chat", "-n", ns]);
});

test("an old one that made room for one that fails comes back as soon as there is room elsewhere", async () => {
  const ns = await namespace("regretted");
  await bench.apply(inferenceService(ns, "chat", { replicas: 2, placement: { hosts: ["mac-1"] } }));
  await until(ns, "False RolloutComplete");
  await patch(ns, { contextSize: BAD_CONTEXT });
  const stopped = await bench.serviceUntil(ns, "chat", ({ status }) => {
    expect(status).toMatchObject({ reason: "RolloutStopped", ready: "1/2" });
    expect(getCondition(status?.conditions, "Placed")?.status).toBe("False");
  });
  expect(stopped.status?.message).toMatch(/is Failed \(EngineBadModel: cannot load it\); correct the spec/);
  await patch(ns, { placement: { hosts: ["mac-1", "mac-2"] } });
  const again = await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.ready).toBe("2/2"));
  expect(progressing(again)).toBe("False RolloutStopped");
  const bad = (await live(ns)).filter(({ spec }) => spec.template.engine.contextSize === BAD_CONTEXT);
  expect(bad).toHaveLength(1);
  await bench.cluster.kubectl(["delete", "isvc", "chat", "-n", ns]);
});

test("a BackendRuntime that changes updates its services on hosts one after another, or when a restart is requested", async () => {
  const ns = await namespace("backends");
  const backend = (threads: string, spec: object = {}) =>
    bench.apply({
      apiVersion: API_VERSION,
      kind: "BackendRuntime",
      metadata: { name: "mine" },
      spec: { engine: "llamacpp", args: ["--threads", threads], ...spec },
    });
  const backendUntil = (expected: object) =>
    vi.waitFor(async () => {
      const { status } = must(await bench.client.get(BACKEND_RUNTIMES, { name: "mine" }));
      expect(status).toMatchObject(expected);
    }, WAIT);
  /** Threads of all engines, those of service a first. */
  const threadsUntil = (expected: readonly string[]) =>
    vi.waitFor(async () => {
      const engines = (await live(ns)).map(
        ({ spec: { template } }) => `${template.serviceName} ${template.engine.extraArgs?.at(-1)}`,
      );
      expect(engines.sort()).toEqual(expected);
    }, WAIT);
  await backend("2");
  for (const name of ["a", "b"]) {
    const spec = { backendRuntime: { name: "mine" }, rollout: { maxUnavailable: 0 } };
    await bench.apply(inferenceService(ns, name, spec));
    await bench.serviceUntil(ns, name, ({ status }) => expect(status?.phase).toBe("Ready"));
  }
  const counts = watchCounts(bench.connection, ns);
  await backend("3");
  await threadsUntil(["a 3", "b 3"]);
  await backendUntil({ services: 2, updatedServices: 2, reason: "AllUpdated" });
  // With both at the same time, there would be four.
  expect(counts.stop()).toEqual({ fewestReady: 2, mostLive: 3 });

  await backend(BAD_THREADS);
  await backendUntil({ updatedServices: 1, reason: "RolloutStopped", updating: `${ns}/a` });
  await threadsUntil([`a ${BAD_THREADS}`, "a 3", "b 3"]);
  await backend("4");
  await threadsUntil(["a 4", "b 4"]);

  await backend("5", { rolloutPolicy: "OnRequest" });
  await backendUntil({ updatedServices: 0, reason: "WaitingForRequest" });
  const annotations = { "metalbridge.dev/restarted-at": "2026-01-01T00:00:00Z" };
  await bench.objects.patch(ns, "isvc/b", { metadata: { annotations } });
  await threadsUntil(["a 4", "b 5"]);
  await backendUntil({ updatedServices: 1, reason: "WaitingForRequest" });
});
