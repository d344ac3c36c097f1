import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { getCondition } from "../src/api/conditions.ts";
import type { Host } from "../src/api/host.ts";
import type { InferenceReplica } from "../src/api/inference-replica.ts";
import type { Log } from "../src/util/ports.ts";
import { quietLog } from "../test/cluster/quiet-log.ts";
import { type Bench, inferenceService, startBench } from "../test/controller/bench.ts";
import { oneOnce } from "../test/controller/once.ts";

describe("step by step", () => {
  const bench = oneOnce();
  const patchHost = (host: string, spec: object) => bench().patch("", `mbhost/${host}`, { spec });
  const drained = async (host: string) => {
    const { status }: Host = await bench().objects.get("", `mbhost/${host}`);
    const condition = getCondition(status?.conditions, "Drained");
    return { said: condition && `${condition.status} ${condition.reason}`, message: condition?.message };
  };
  const hostsOf = async (ns: string) =>
    (await bench().replicas(ns)).map(({ spec }) => spec.template.hostName);
  const status = async (ns: string) => (await bench().service(ns, "chat")).status;
  /** A service on mac-1, beside which there is mac-2. */
  const serve = async (ns: string, spec: object) => {
    await bench().agents({ "mac-1": {} });
    await bench().namespace(ns);
    await bench().apply(inferenceService(ns, "chat", spec));
    expect(await status(ns)).toMatchObject({ phase: "Ready" });
  };

  test("replicas on a draining host serve until their successors on other hosts do, and then stop", async () => {
    await serve("moved", { rollout: { maxSurge: 0 } });
    let isSlow = true;
    const statusOf = () =>
      isSlow ? ({ phase: "Starting", reason: "EngineStarting", message: "" } as const) : undefined;
    await bench().agents({ "mac-2": { statusOf } });
    const [before] = await bench().replicas("moved");
    await patchHost("mac-1", { drain: true });
    expect(await drained("mac-1")).toEqual({
      said: "False DrainInProgress",
      message: "1 left on mac-1: 1 waiting for its successor",
    });
    expect((await hostsOf("moved")).sort()).toEqual(["mac-1", "mac-2"]);
    const still = (await bench().replicas("moved")).find(
      ({ metadata }) => metadata.uid === before?.metadata.uid,
    );
    expect(still?.metadata.deletionTimestamp).toBeUndefined();
    expect(await status("moved")).toMatchObject({ ready: "1/1" });

    isSlow = false;
    bench().agent("mac-2").look();
    await bench().settle();
    expect(await drained("mac-1")).toEqual({
      said: "True HostDrained",
      message: expect.stringContaining("no replica is left on mac-1"),
    });
    expect(await hostsOf("moved")).toEqual(["mac-2"]);
    expect(await status("moved")).toMatchObject({ phase: "Ready", ready: "1/1" });

    await patchHost("mac-1", { drain: false });
    expect((await drained("mac-1")).said).toBeUndefined();
    // Replicas do not move back after the drain.
    expect(await hostsOf("moved")).toEqual(["mac-2"]);
  });

  test("replicas that fit no other host stay and serve, and the host reports them with the reason", async () => {
    await serve("blocked", { replicas: 2, placement: { hosts: ["mac-1"] } });
    await bench().agents({ "mac-2": {} });
    await patchHost("mac-1", { drain: true });
    // With maxSurge 1 one is asked for at a time, so the other waits for its turn.
    expect((await drained("mac-1")).message).toMatch(
      /^2 left on mac-1: 1 waiting for its successor; blocked\/chat-\d-\w+ stays: mac-1: draining; mac-2: not in spec\.placement\.hosts$/,
    );
    expect(await status("blocked")).toMatchObject({ ready: "2/2" });
    await bench().patch("blocked", "isvc/chat", { spec: { placement: { hosts: ["mac-1", "mac-2"] } } });
    expect((await drained("mac-1")).said).toBe("True HostDrained");
    expect(await status("blocked")).toMatchObject({ phase: "Ready", ready: "2/2" });
  });

  test("a cordoned host keeps its replicas and gets no new ones", async () => {
    await serve("cordoned", {});
    await patchHost("mac-1", { unschedulable: true });
    await bench().patch("cordoned", "isvc/chat", { spec: { replicas: 2 } });
    const waiting = await status("cordoned");
    expect(waiting).toMatchObject({ phase: "WaitingForCapacity", ready: "1/2" });
    expect(waiting?.message).toContain("mac-1: cordoned");
    expect(await hostsOf("cordoned")).toEqual(["mac-1"]);
    await patchHost("mac-1", { unschedulable: false });
    expect(await status("cordoned")).toMatchObject({ phase: "Ready", ready: "2/2" });
  });

  test("replicas of a stopped service leave a draining host without a successor", async () => {
    await serve("stopped", {});
    await patchHost("mac-1", { drain: true });
    expect((await drained("mac-1")).said).toBe("False DrainBlocked");
    await bench().objects.scale("stopped", "isvc/chat", 0);
    await bench().settle();
    expect((await drained("mac-1")).said).toBe("True HostDrained");
    expect(bench().events("mac-1").join("\n")).toMatch(
      /Normal DrainInProgress: [\s\S]*Warning DrainBlocked: [\s\S]*Normal HostDrained: /,
    );
  });
});

describe("live eviction", () => {
  /** At once, but for the observations that it takes. */
  const LIVE_EVICTION = {
    flags: { liveEviction: true },
    liveEviction: { intervalMs: 1_000, minimumStayMs: 1_000, cooldownMs: 30_000 },
  };
  const WAIT = { timeout: 60_000, interval: 50 };
  /** Takes names of replicas as soon as live eviction knows their fitness. */
  const observing = (names: unknown[]): Log => ({
    ...quietLog,
    debug: (data, message) => {
      if (message === "fitness observed") names.push((data as { name?: unknown }).name);
    },
  });
  const observed: unknown[] = [];
  let bench: Bench;
  beforeAll(async () => {
    bench = await startBench({ ...LIVE_EVICTION, log: observing(observed) });
    await bench.agent("mac-1");
    await bench.agent("mac-2", { address: "192.168.7.21" });
  });
  afterAll(() => bench?.[Symbol.asyncDispose]());

  test("it moves a replica off a host that no longer holds its model, once another serves; the leader alone decides", async () => {
    const ns = "falling";
    const { objects } = bench;
    const observedByStandby: unknown[] = [];
    const standby = await bench.standby(observing(observedByStandby));
    // Otherwise it would lead in the control plane of the next file.
    onTestFinished(() => standby.stop());
    const ready = () =>
      bench.serviceUntil(ns, "chat", ({ status }) =>
        expect(status).toMatchObject({ phase: "Ready", ready: "1/1" }),
      );
    await objects.createNamespace(ns);
    const source = "hf://bartowski/Qwen2.5-7B-Instruct-GGUF/Qwen2.5-7B-Instruct-Q4_K_M.gguf";
    await bench.model(ns, "tiny", { gib: 5, source });
    await bench.apply(inferenceService(ns, "chat"));
    await ready();
    const [replica] = await bench.replicas(ns);
    const before = replica?.spec.template.hostName ?? "";
    await vi.waitFor(() => expect(observed).toContain(replica?.metadata.name), WAIT);
    const other = before === "mac-1" ? "mac-2" : "mac-1";
    await objects.patch("", `mbhost/${before}`, { spec: { memory: { gpuBudget: "1Gi" } } });
    await objects.until(ns, "irep", (replicas: InferenceReplica[]) =>
      expect(replicas.map(({ spec }) => spec.template.hostName)).toEqual([other]),
    );
    await ready();
    await objects.until(ns, "events.events.k8s.io", (events: { reason: string; note: string }[]) => {
      const notes = events.filter(({ reason }) => reason === "FitnessFell").map(({ note }) => note);
      expect(notes).toEqual([
        expect.stringMatching(
          new RegExp(
            `the score of ${before} has fallen by 100%, from \\d+ to 0, in 3 .*; ${other} scores \\d+$`,
          ),
        ),
      ]);
    });
    await objects.patch("", `mbhost/${before}`, { spec: { memory: { gpuBudget: null } } });
    expect(observedByStandby).toEqual([]);
    await bench.stopController();
    const [moved] = await bench.replicas(ns);
    await vi.waitFor(() => expect(observedByStandby).toContain(moved?.metadata.name), WAIT);
  });
});
