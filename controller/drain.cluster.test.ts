import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { getCondition } from "../src/api/conditions.ts";
import type { InferenceReplica } from "../src/api/inference-replica.ts";
import { HOSTS } from "../src/api/kinds.ts";
import type { Log } from "../src/util/ports.ts";
import { quietLog } from "../test/cluster/quiet-log.ts";
import { type Bench, inferenceService, startBench } from "../test/controller/bench.ts";

const WAIT = { timeout: 60_000, interval: 50 };
const SLOW_CONTEXT = 1_024;
const BAD_CONTEXT = 1_152;
/** At once, but for the observations that it takes. */
const LIVE_EVICTION = {
  flags: { liveEviction: true },
  liveEviction: { intervalMs: 1_000, minimumStayMs: 1_000, cooldownMs: 30_000 },
};
/** Takes names of replicas as soon as live eviction knows their fitness. */
const observing = (names: unknown[]): Log => ({
  ...quietLog,
  debug: (data, message) => {
    if (message === "fitness observed") names.push((data as { name?: unknown }).name);
  },
});
const observed: unknown[] = [];
let bench: Bench;
let isSlow = true;
beforeAll(async () => {
  bench = await startBench({ ...LIVE_EVICTION, log: observing(observed) });
  // On mac-2 an engine with this context takes its time.
  const statusOf = (replica: InferenceReplica) =>
    replica.spec.template.engine.contextSize === SLOW_CONTEXT && isSlow
      ? ({ phase: "Starting", reason: "EngineStarting", message: "" } as const)
      : badStatus(replica);
  await bench.agent("mac-1", { statusOf: badStatus });
  await bench.agent("mac-2", { address: "192.168.7.21", statusOf });
});
afterAll(() => bench?.[Symbol.asyncDispose]());

/** An engine with this context never works. */
function badStatus({ spec }: InferenceReplica): InferenceReplica["status"] {
  if (spec.template.engine.contextSize !== BAD_CONTEXT) return undefined;
  return { phase: "Failed", reason: "EngineBadModel", message: "cannot load it" };
}

async function namespace(name: string): Promise<string> {
  await bench.cluster.kubectl(["create", "namespace", name]);
  await bench.model(name, "tiny");
  return name;
}

const patchHost = (host: string, spec: object) =>
  bench.cluster.kubectl(["patch", "host", host, "--type=merge", "-p", JSON.stringify({ spec })]);

async function drained(host: string): Promise<{ said: string; message: string }> {
  const result = await bench.client.get(HOSTS, { name: host });
  const condition = result.ok ? getCondition(result.value.status?.conditions, "Drained") : undefined;
  return { said: `${condition?.status} ${condition?.reason}`, message: condition?.message ?? "" };
}

const drainUntil = (host: string, desired: string) =>
  vi.waitFor(async () => {
    const now = await drained(host);
    expect(now.said).toBe(desired);
    return now.message;
  }, WAIT);

const hostsOf = async (ns: string) =>
  (await bench.replicas(ns)).map(
    ({ spec, metadata }) =>
      `${spec.template.hostName}${metadata.deletionTimestamp === undefined ? "" : " leaving"}`,
  );

const ready = (ns: string, words: string) =>
  bench.serviceUntil(ns, "chat", ({ status }) =>
    expect(status).toMatchObject({ phase: "Ready", ready: words }),
  );

test("replicas on a draining host serve until their successors on other hosts do, and then stop", async () => {
  const ns = await namespace("moved");
  await patchHost("mac-2", { unschedulable: true });
  await bench.apply(inferenceService(ns, "chat", { contextSize: SLOW_CONTEXT, rollout: { maxSurge: 0 } }));
  await ready(ns, "1/1");
  const [before] = await bench.replicas(ns);
  await patchHost("mac-2", { unschedulable: false });
  await patchHost("mac-1", { drain: true });
  expect(await drainUntil("mac-1", "False DrainInProgress")).toMatch(
    /^1 left on mac-1: 1 waiting for its successor$/,
  );
  await vi.waitFor(async () => expect(await hostsOf(ns)).toHaveLength(2), WAIT);
  const [still] = (await bench.replicas(ns)).filter(({ metadata }) => metadata.uid === before?.metadata.uid);
  expect(still?.metadata.deletionTimestamp).toBeUndefined();
  expect((await bench.service(ns, "chat")).status?.ready).toBe("1/1");

  isSlow = false;
  // Stands in for the agent of mac-2, which would write its status once the engine is up.
  await bench.cluster.kubectl(["label", "irep", "-n", ns, "-l=metalbridge.dev/host=mac-2", "look=again"]);
  expect(await drainUntil("mac-1", "True HostDrained")).toContain("no replica is left on mac-1");
  await vi.waitFor(async () => expect(await hostsOf(ns)).toEqual(["mac-2"]), WAIT);
  await ready(ns, "1/1");

  await patchHost("mac-1", { drain: false });
  await drainUntil("mac-1", "undefined undefined");
  // Replicas do not move back after the drain.
  expect(await hostsOf(ns)).toEqual(["mac-2"]);
  await bench.cluster.kubectl(["delete", "isvc", "chat", "-n", ns]);
});

test("while a rollout is stopped, a drain moves replicas with the revision that serves", async () => {
  const ns = await namespace("halted");
  await bench.apply(inferenceService(ns, "chat", { replicas: 2 }));
  await ready(ns, "2/2");
  const contextSize = BAD_CONTEXT;
  await bench.apply(inferenceService(ns, "chat", { replicas: 2, contextSize }));
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.reason).toBe("RolloutStopped"));
  for (const host of ["mac-1", "mac-2"]) {
    await patchHost(host, { drain: true });
    await drainUntil(host, "True HostDrained");
    const { status } = await bench.service(ns, "chat");
    expect(status).toMatchObject({ reason: "RolloutStopped", ready: "2/2" });
    await patchHost(host, { drain: false });
  }
  const bad = (await bench.replicas(ns)).filter(
    ({ spec }) => spec.template.engine.contextSize === BAD_CONTEXT,
  );
  expect(bad).toHaveLength(1);
  await bench.cluster.kubectl(["delete", "isvc", "chat", "-n", ns]);
});

test("replicas that fit no other host stay and serve, and the host reports them with the reason", async () => {
  const ns = await namespace("blocked");
  const placement = { hosts: ["mac-1"] };
  await bench.apply(inferenceService(ns, "chat", { replicas: 2, placement }));
  await ready(ns, "2/2");
  await patchHost("mac-1", { drain: true });
  // With maxSurge 1 one is asked for at a time, so the other waits for its turn.
  const message = await vi.waitFor(async () => {
    const { message: text } = await drained("mac-1");
    expect(text).toContain("stays");
    return text;
  }, WAIT);
  expect(message).toMatch(
    /^2 left on mac-1: 1 waiting for its successor; blocked\/chat-\d-\w+ stays: mac-1: draining; mac-2: not in spec\.placement\.hosts$/,
  );
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.ready).toBe("2/2"));
  await bench.apply(inferenceService(ns, "chat", { replicas: 2, placement: { hosts: ["mac-1", "mac-2"] } }));
  await drainUntil("mac-1", "True HostDrained");
  await ready(ns, "2/2");
  await patchHost("mac-1", { drain: false });
  await bench.cluster.kubectl(["delete", "isvc", "chat", "-n", ns]);
});

test("a cordoned host keeps its replicas and gets no new ones", async () => {
  const ns = await namespace("cordoned");
  await bench.apply(inferenceService(ns, "chat", { placement: { hosts: ["mac-1"] } }));
  await ready(ns, "1/1");
  await patchHost("mac-1", { unschedulable: true });
  await bench.apply(inferenceService(ns, "chat", { replicas: 2, placement: { hosts: ["mac-1"] } }));
  const waiting = await bench.serviceUntil(ns, "chat", ({ status }) =>
    expect(status).toMatchObject({ phase: "WaitingForCapacity", ready: "1/2" }),
  );
  expect(waiting.status?.message).toContain("mac-1: cordoned");
  expect(await hostsOf(ns)).toEqual(["mac-1"]);
  await patchHost("mac-1", { unschedulable: false });
  await ready(ns, "2/2");
  await bench.cluster.kubectl(["delete", "isvc", "chat", "-n", ns]);
});

test("replicas of a stopped service leave a draining host without a successor", async () => {
  const ns = await namespace("stopped");
  await bench.apply(inferenceService(ns, "chat", { placement: { hosts: ["mac-1"] } }));
  await ready(ns, "1/1");
  await patchHost("mac-1", { drain: true });
  await vi.waitFor(async () => expect((await drained("mac-1")).said).toBe("False DrainBlocked"), WAIT);
  await bench.cluster.kubectl(["scale", "isvc", "chat", "-n", ns, "--replicas=0"]);
  await drainUntil("mac-1", "True HostDrained");
  await patchHost("mac-1", { drain: false });
  await vi.waitFor(async () => {
    const events = await bench.cluster.kubectl([
      "get",
      "events",
      "-A",
      "-o",
      "jsonpath={range .items[?(@.involvedObject.name=='mac-1')]}{.type} {.reason}{'\\n'}{end}",
    ]);
    for (const line of ["Normal DrainInProgress", "Warning DrainBlocked", "Normal HostDrained"]) {
      expect(events.split("\n")).toContain(line);
    }
  }, WAIT);
});

test("live eviction moves a replica off a host that no longer holds its model, once another serves; the leader alone decides", async () => {
  const ns = "falling";
  const observedByStandby: unknown[] = [];
  const standby = await bench.standby(observing(observedByStandby));
  await bench.cluster.kubectl(["create", "namespace", ns]);
  const source = "hf://bartowski/Qwen2.5-7B-Instruct-GGUF/Qwen2.5-7B-Instruct-Q4_K_M.gguf";
  await bench.model(ns, "tiny", { gib: 5, source });
  await bench.apply(inferenceService(ns, "chat"));
  await ready(ns, "1/1");
  const [replica] = await bench.replicas(ns);
  const before = replica?.spec.template.hostName ?? "";
  await vi.waitFor(() => expect(observed).toContain(replica?.metadata.name), WAIT);
  const other = before === "mac-1" ? "mac-2" : "mac-1";
  await patchHost(before, { memory: { gpuBudget: "1Gi" } });
  await vi.waitFor(async () => expect(await hostsOf(ns)).toEqual([other]), WAIT);
  await ready(ns, "1/1");
  const moves = await vi.waitFor(async () => {
    const events = await bench.cluster.kubectl(["get", "events.events.k8s.io", "-n", ns, "-o", "json"]);
    const notes: string[] = JSON.parse(events).items.map(
      ({ reason, note }: { readonly reason: string; readonly note: string }) => `${reason}: ${note}`,
    );
    const found = notes.filter((note) => note.startsWith("FitnessFell"));
    expect(found).toHaveLength(1);
    return found;
  }, WAIT);
  expect(moves[0]).toMatch(
    new RegExp(`the score of ${before} has fallen by 100%, from \\d+ to 0, in 3 .*; ${other} scores \\d+$`),
  );
  await patchHost(before, { memory: { gpuBudget: null } });
  expect(observedByStandby).toEqual([]);
  await bench.stopController();
  const [moved] = await bench.replicas(ns);
  await vi.waitFor(() => expect(observedByStandby).toContain(moved?.metadata.name), WAIT);
  await bench.cluster.kubectl(["delete", "isvc/chat", "-n", ns, "--timeout=60s"]);
  await standby.stop();
});
