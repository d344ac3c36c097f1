import { expect, test } from "vitest";
import { getCondition } from "../src/api/conditions.ts";
import { API_VERSION } from "../src/api/group.ts";
import type { InferenceReplica } from "../src/api/inference-replica.ts";
import type { InferenceService } from "../src/api/inference-service/index.ts";
import { parseRevisionData } from "../src/capacity/revision-data.ts";
import type { ControllerRevision } from "../src/kube/objects.ts";
import { inferenceService } from "../test/controller/bench.ts";
import { oneOnce } from "../test/controller/once.ts";

const BAD_CONTEXT = 1_024;
const BAD_THREADS = "13";
const bench = oneOnce();

/** An engine with this context, or with these threads, never works. */
function statusOf({ spec }: InferenceReplica): InferenceReplica["status"] {
  const { contextSize, extraArgs } = spec.template.engine;
  if (contextSize !== BAD_CONTEXT && !extraArgs?.includes(BAD_THREADS)) return undefined;
  return { phase: "Failed", reason: "EngineBadModel", message: "cannot load it" };
}

/** Replicas of 5 GiB. */
const ROOM_FOR_TWO = { budgetGib: 12, statusOf };

async function serve(ns: string, spec: object): Promise<InferenceService> {
  await bench().agents({ "mac-1": ROOM_FOR_TWO, "mac-2": ROOM_FOR_TWO, "mac-3": ROOM_FOR_TWO });
  await bench().namespace(ns);
  await bench().apply(inferenceService(ns, "chat", spec));
  return complete(ns);
}

const chat = (ns: string) => bench().service(ns, "chat");
const change = (ns: string, spec: object) => bench().patch(ns, "isvc/chat", { spec });
const progressing = ({ status }: InferenceService) => {
  const condition = getCondition(status?.conditions, "Progressing");
  return `${condition?.status} ${condition?.reason}`;
};

async function complete(ns: string): Promise<InferenceService> {
  const service = await chat(ns);
  expect(progressing(service)).toBe("False RolloutComplete");
  expect(service.status?.observedGeneration).toBe(service.metadata.generation);
  return service;
}

const uids = async (ns: string) => (await bench().replicas(ns)).map(({ metadata }) => metadata.uid);
const contexts = async (ns: string) =>
  (await bench().replicas(ns)).map(({ spec }) => spec.template.engine.contextSize);

/** How many slots of a namespace have a Ready replica, and how many replicas there are, at any time from now on. */
function counts(ns: string): { fewestReady: number; mostLive: number } {
  const found = { fewestReady: Number.POSITIVE_INFINITY, mostLive: 0 };
  bench().observe(({ watches }) => {
    const live = watches.replicas
      .list()
      .filter(({ metadata }) => metadata.namespace === ns && metadata.deletionTimestamp === undefined);
    const ready = live.filter(({ status }) => status?.phase === "Ready");
    const slots = new Set(ready.map(({ metadata }) => metadata.name.replace(/-\w+$/, "")));
    found.fewestReady = Math.min(found.fewestReady, slots.size);
    found.mostLive = Math.max(found.mostLive, live.length);
  });
  return found;
}

/** Numbers of the revisions by context size. */
async function revisions(ns: string): Promise<Record<string, number>> {
  const items: ControllerRevision[] = (await bench().objects.get(ns, "controllerrevisions")).items;
  return Object.fromEntries(
    items.map(({ revision, data }) => [
      String(parseRevisionData(data)?.spec.contextSize ?? "none"),
      revision,
    ]),
  );
}

test("a change goes from slot to slot with one replica more, and never with one less", async () => {
  const first = await serve("surge", { replicas: 3, rollout: { maxUnavailable: 0 } });
  expect(first.status?.currentRevision).toBe(first.status?.updateRevision);
  const seen = counts("surge");
  await change("surge", { contextSize: 2_048 });
  const last = await complete("surge");
  expect(last.status).toMatchObject({ phase: "Ready", updatedReplicas: 3, ready: "3/3" });
  expect(last.status?.updateRevision).not.toBe(first.status?.updateRevision);
  expect(seen).toEqual({ fewestReady: 3, mostLive: 4 });
  expect(await contexts("surge")).toEqual([2_048, 2_048, 2_048]);
});

test("a failing revision stops the rollout; added replicas are of the old one; a correction resumes it", async () => {
  await serve("failing", { replicas: 2 });
  const before = await uids("failing");
  await change("failing", { contextSize: BAD_CONTEXT });
  const stopped = await chat("failing");
  expect(progressing(stopped)).toBe("False RolloutStopped");
  expect(stopped.status).toMatchObject({ phase: "Degraded", reason: "RolloutStopped", ready: "2/2" });
  expect(stopped.status?.message).toMatch(
    /^1 of 2 updated, 0 ready, 2 old serving; chat-0-\w+ on mac-\d is Failed \(EngineBadModel: cannot load it\); correct the spec/,
  );
  expect(getCondition(stopped.status?.conditions, "Degraded")).toMatchObject({
    status: "True",
    reason: "RolloutStopped",
  });
  expect(await uids("failing")).toEqual(expect.arrayContaining(before));

  await change("failing", { replicas: 3 });
  expect((await chat("failing")).status?.ready).toBe("3/3");
  expect((await contexts("failing")).filter((context) => context === BAD_CONTEXT)).toHaveLength(1);

  await change("failing", { contextSize: 2_048 });
  expect((await complete("failing")).status).toMatchObject({
    phase: "Ready",
    ready: "3/3",
    updatedReplicas: 3,
  });
  expect(await contexts("failing")).toEqual([2_048, 2_048, 2_048]);
});

test("a service that is deleted in the middle of a rollout leaves no replica of either revision", async () => {
  await serve("deleted", { replicas: 2 });
  await change("deleted", { contextSize: BAD_CONTEXT });
  expect(progressing(await chat("deleted"))).toBe("False RolloutStopped");
  await bench().remove("deleted", "isvc/chat");
  expect(await uids("deleted")).toEqual([]);
});

test("going back uses the old revision again, with the highest number, and restarts nothing that is of it", async () => {
  await serve("undone", { replicas: 2, contextSize: 4_096 });
  const before = await uids("undone");
  await change("undone", { contextSize: BAD_CONTEXT });
  expect(progressing(await chat("undone"))).toBe("False RolloutStopped");
  expect(await revisions("undone")).toEqual({ 4096: 1, 1024: 2 });
  await change("undone", { contextSize: 4_096 });
  expect((await complete("undone")).status?.phase).toBe("Ready");
  expect(await revisions("undone")).toEqual({ 4096: 3, 1024: 2 });
  expect(await uids("undone")).toEqual(before);
});

test("no more old revisions are kept than revisionHistoryLimit", async () => {
  await serve("history", { contextSize: 512, rollout: { revisionHistoryLimit: 1 } });
  for (const contextSize of [640, 768, 896]) {
    await change("history", { contextSize });
    await complete("history");
  }
  expect(await revisions("history")).toEqual({ 768: 3, 896: 4 });
});

test("what needs no restart restarts nothing", async () => {
  const first = await serve("calm", { replicas: 2 });
  const before = await uids("calm");
  await change("calm", {
    priority: "high",
    hostLostSeconds: 77,
    evictionProtection: true,
    rollout: { drainSeconds: 0, maxSurge: 2 },
    probeOverrides: {
      liveness: { timeoutSeconds: 2, failureThreshold: 7 },
      startup: { failureThreshold: 9 },
    },
  });
  await bench().patch("calm", "isvc/chat", { metadata: { labels: { team: "blue" } } });
  for (const { spec } of await bench().replicas("calm")) {
    expect(spec).toMatchObject({ priority: "high", hostLostSeconds: 77, drainSeconds: 0 });
    expect(spec.probes).toEqual({ startSeconds: 90, timeoutSeconds: 2, failureThreshold: 7 });
  }
  expect((await complete("calm")).status?.updateRevision).toBe(first.status?.updateRevision);
  expect(await uids("calm")).toEqual(before);
});

test("nothing that serves is ended for a replica that would fit nowhere", async () => {
  await serve("unplaceable", {});
  const before = await uids("unplaceable");
  await bench().model("unplaceable", "huge", { gib: 200, source: "https://models.example/huge.gguf" });
  await change("unplaceable", { modelRef: "huge" });
  const waiting = await chat("unplaceable");
  expect(getCondition(waiting.status?.conditions, "Placed")?.status).toBe("False");
  expect(progressing(waiting)).toBe("True NewRevisionRollingOut");
  expect(waiting.status?.message).toMatch(/^0 of 1 updated, 1 old serving; no host for slot 0: /);
  expect(await uids("unplaceable")).toEqual(before);
  await change("unplaceable", { modelRef: "tiny" });
  await complete("unplaceable");
  expect(await uids("unplaceable")).toEqual(before);
});

test("without room for both, the old replica is stopped first, and Events say so", async () => {
  await serve("tight", { replicas: 2, placement: { hosts: ["mac-1"] } });
  const seen = counts("tight");
  await change("tight", { contextSize: 2_048 });
  expect((await complete("tight")).status?.ready).toBe("2/2");
  expect(seen).toEqual({ fewestReady: 1, mostLive: 2 });
  const events = bench().events("chat").join("\n");
  expect(events).toMatch(/ReplicaRemoved: draining chat-\d-\w+ on mac-1: frees memory for revision/);
  expect(events).toMatch(/ReplicaCreated: chat-\d-\w+ on mac-1: revision \w+/);
  expect(events).toMatch(/NewRevisionRollingOut: /);
  expect(events).toMatch(/RolloutComplete: 2 of 2 updated/);
});

test("a changed BackendRuntime updates a service on hosts when a restart is requested, and a rollout that stops keeps the earlier content serving", async () => {
  await bench().agents({ "mac-1": ROOM_FOR_TWO, "mac-2": ROOM_FOR_TWO, "mac-3": ROOM_FOR_TWO });
  const ns = await bench().namespace("backends");
  const backend = (threads: string) =>
    bench().apply({
      apiVersion: API_VERSION,
      kind: "BackendRuntime",
      metadata: { name: "mine" },
      spec: { engine: "llamacpp", args: ["--threads", threads] },
    });
  const status = async () => (await bench().objects.get("", "backendruntime/mine")).status;
  /** Threads of all engines, those of service a first. */
  const threads = async () =>
    (await bench().replicas(ns))
      .map(({ spec: { template } }) => `${template.serviceName} ${template.engine.extraArgs?.at(-1)}`)
      .sort();
  await backend("2");
  const spec = { backendRuntime: { name: "mine" }, rollout: { maxUnavailable: 0 } };
  await bench().apply(inferenceService(ns, "a", spec), inferenceService(ns, "b", spec));
  expect(await threads()).toEqual(["a 2", "b 2"]);
  let restarts = 0;
  const restart = (name: string) => {
    const annotations = { "metalbridge.dev/restarted-at": `restart ${restarts++}` };
    return bench().patch(ns, `isvc/${name}`, { metadata: { annotations } });
  };

  await backend("3");
  expect(await threads()).toEqual(["a 2", "b 2"]);
  expect(await status()).toMatchObject({ services: 2, updatedServices: 0, reason: "ServicesOutdated" });
  await restart("a");
  expect(await threads()).toEqual(["a 3", "b 2"]);
  expect(await status()).toMatchObject({ updatedServices: 1, reason: "ServicesOutdated" });

  await backend(BAD_THREADS);
  await restart("a");
  expect(await threads()).toEqual([`a ${BAD_THREADS}`, "a 3", "b 2"]);
  await backend("4");
  expect(await threads()).toEqual([`a ${BAD_THREADS}`, "a 3", "b 2"]);
  await restart("a");
  expect(await threads()).toEqual(["a 4", "b 2"]);
});
