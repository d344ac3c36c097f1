/** Hosts over the real API server: each judgement by one controller that runs step by step, and the loss of a host by a real one. */
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { getCondition } from "../src/api/conditions.ts";
import { ANNOTATION_LOST, NAMESPACE_HOSTS } from "../src/api/group.ts";
import type { Host } from "../src/api/host.ts";
import type { InferenceReplica } from "../src/api/inference-replica.ts";
import type { EndpointSlice } from "../src/kube/objects.ts";
import type { Objects } from "../test/bed/objects.ts";
import type { AgentSide } from "../test/controller/agent-side.ts";
import { type Bench, inferenceService, startBench } from "../test/controller/bench.ts";
import { oneOnce } from "../test/controller/once.ts";
import { createSteppedClock } from "../test/controller/stepped-clock.ts";

/** One step more than the 40 s of a Lease. */
const EXPIRED_MS = 41_000;
const OUR_SLICES = { labelSelector: "endpointslice.kubernetes.io/managed-by=agent.metalbridge.dev" };
const WITHDRAWN = { ready: false, serving: false, terminating: true };

const reasonIn = (host: Host, type: string) => {
  const found = getCondition(host.status?.conditions, type);
  return found && `${found.status} ${found.reason}`;
};

describe("step by step", () => {
  const bench = oneOnce();

  const host = (name: string): Promise<Host> => bench().objects.get("", `mbhost/${name}`);
  const condition = async (name: string, type = "Reachable") => reasonIn(await host(name), type);
  const placement = (...names: readonly string[]) => ({ placement: { hosts: names } });
  const serve = async (ns: string, spec: object) => {
    await bench().namespace(ns);
    await bench().apply(inferenceService(ns, "chat", spec));
    expect((await bench().service(ns, "chat")).status?.phase).toBe("Ready");
    const [replica] = await bench().replicas(ns);
    return replica;
  };

  test("a replica that its host refuses for 30 s is replaced on another host, and stops when the new one serves", async () => {
    const statusOf = () =>
      ({ phase: "Waiting", reason: "InsufficientMemory", message: "40 GiB are missing" }) as const;
    await bench().agents({ "mac-1": { budgetGib: 512, statusOf }, "mac-2": {} });
    const ns = await bench().namespace("refused");
    await bench().apply(inferenceService(ns, "chat"));
    expect((await bench().service(ns, "chat")).status).toMatchObject({
      phase: "Creating",
      reason: "InsufficientMemory",
    });
    expect((await bench().replicas(ns)).map(({ spec }) => spec.template.hostName)).toEqual(["mac-1"]);

    await bench().advance(29_000);
    expect((await bench().replicas(ns)).map(({ spec }) => spec.template.hostName)).toEqual(["mac-1"]);
    await bench().advance(2_000);
    expect((await bench().service(ns, "chat")).status?.phase).toBe("Ready");
    expect((await bench().replicas(ns)).map(({ spec }) => spec.template.hostName)).toEqual(["mac-2"]);
  });

  test("a rollout continues where the file of its Model is, and not on a host that lacks it", async () => {
    const statusOf = () =>
      ({ phase: "Failed", reason: "SourceNotAllowed", message: "not a --model-root" }) as const;
    await bench().agents({ "mac-1": { budgetGib: 8 }, "mac-2": { budgetGib: 512, statusOf } });
    const ns = await bench().namespace("files", { source: "file:///models/tiny.gguf" });
    await bench().apply(inferenceService(ns, "chat", placement("mac-1")));
    const [old] = await bench().replicas(ns);
    await bench().apply(inferenceService(ns, "chat", { contextSize: 2048, ...placement("mac-1", "mac-2") }));
    const refused = await bench().service(ns, "chat");
    expect(refused.status?.message).toMatch(/ on mac-2 is Failed$/);
    expect(refused.status).toMatchObject({ ready: "1/1" });

    await bench().advance(31_000);
    const { status } = await bench().service(ns, "chat");
    expect(status).toMatchObject({ phase: "Ready", ready: "1/1", replicas: 1 });
    expect(status?.currentRevision).toBe(status?.updateRevision);
    const [now, ...others] = await bench().replicas(ns);
    expect(others).toEqual([]);
    expect(now?.spec.template.hostName).toBe("mac-1");
    expect(now?.metadata.uid).not.toBe(old?.metadata.uid);
    expect(bench().events("chat").join()).not.toContain("RolloutStopped");
  });

  test("a host that is declared lost loses its replicas once its Lease has expired; the mark is removed when it returns", async () => {
    await bench().agents({ "mac-1": { budgetGib: 512 }, "mac-2": {}, "mac-3": {} });
    await serve("declared", placement("mac-1", "mac-2"));
    bench().agent("mac-1").fallSilent();
    const mark = { metadata: { annotations: { [ANNOTATION_LOST]: "2026-01-01T00:00:00Z" } } };
    await bench().patch("", "mbhost/mac-1", mark);
    await bench().advance(39_000);
    expect(await condition("mac-1", "Lost")).toBe("False NotLost");
    await bench().advance(2_000);
    expect(await condition("mac-1", "Lost")).toBe("True HostLost");
    expect((await bench().replicas("declared")).map(({ spec }) => spec.template.hostName)).toEqual(["mac-2"]);
    expect((await bench().service("declared", "chat")).status?.phase).toBe("Ready");
    expect((await host("mac-1")).metadata.annotations).toHaveProperty([ANNOTATION_LOST]);

    await bench().agents({ "mac-1": { budgetGib: 512 } });
    expect((await host("mac-1")).metadata.annotations).toBeUndefined();
    expect(await condition("mac-1", "Lost")).toBe("False NotLost");
    // One engine serves, on the other host, and nothing leads to the one that was replaced.
    const slices: EndpointSlice[] = (await bench().objects.get("declared", "endpointslices")).items;
    expect(slices.map(({ metadata }) => metadata.labels?.["metalbridge.dev/host"])).toEqual(["mac-2"]);
    const about = bench().events("mac-1").join("\n");
    expect(about).toMatch(/Warning HostLost: [\s\S]*Normal HostReturned: /);
    expect(about).not.toContain("HostNotLost");
    expect(bench().events("chat").join()).toContain("Warning HostLost");
  });

  test("a host that is declared lost and renews its Lease keeps its replicas", async () => {
    await bench().agents({ "mac-1": {} });
    await serve("kept", {});
    await bench().patch("", "mbhost/mac-1", { metadata: { annotations: { [ANNOTATION_LOST]: "yes" } } });
    bench().clock.advance(1);
    await bench().agent("mac-1").renew();
    await bench().settle();
    expect((await host("mac-1")).metadata.annotations).toBeUndefined();
    expect(await condition("mac-1", "Lost")).toBe("False NotLost");
    expect(bench().events("mac-1").join()).toContain("Warning HostNotLost");
    expect(await bench().replicas("kept")).toHaveLength(1);
  });

  test("a flapping host gets no new replica for ten minutes, also by a controller that was restarted meanwhile", async () => {
    await bench().agents({ "mac-1": {}, "mac-2": {}, "mac-3": {} });
    bench().agent("mac-1").fallSilent();
    await bench().advance(EXPIRED_MS);
    expect(await condition("mac-1")).toBe("False HostUnreachable");
    await bench().agent("mac-1").renew();
    await bench().settle();
    expect((await host("mac-1")).status?.reachableChanges).toHaveLength(2);
    await bench().restart();
    await bench().agent("mac-1").renew();
    // The third change within ten minutes, of which this controller has seen one.
    await bench().advance(EXPIRED_MS);
    expect(await condition("mac-1", "Flapping")).toBe("True HostFlapping");
    await bench().agents({ "mac-1": {} });
    await bench().namespace("flapping");
    await bench().apply(inferenceService("flapping", "chat", placement("mac-1")));
    const { status } = await bench().service("flapping", "chat");
    expect(status?.phase).toBe("WaitingForCapacity");
    expect(status?.message).toContain("no replicas are scheduled here until 20");

    await bench().advance(10 * 60_000);
    expect(await condition("mac-1", "Flapping")).toBe("False HostSteady");
    expect((await bench().service("flapping", "chat")).status?.phase).toBe("Ready");
  });

  test("a host that is registered long before its agent comes is Unknown, and then reachable without having been silent", async () => {
    await bench().advance(2 * EXPIRED_MS);
    // As `metalbridge host add` leaves it.
    const added = { apiVersion: "metalbridge.dev/v1alpha1", kind: "Host", metadata: { name: "later" } };
    const lease = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", spec: {} };
    await bench().apply(
      { ...added, spec: { addresses: ["192.168.7.60"] } },
      { ...lease, metadata: { name: "later", namespace: NAMESPACE_HOSTS } },
    );
    await bench().advance(2 * EXPIRED_MS);
    const { conditions = [] } = (await host("later")).status ?? {};
    expect(conditions.map(({ type, reason }) => `${type} ${reason}`)).toEqual(["Reachable HostNeverSeen"]);
    expect(bench().events("later")).toEqual([]);
    await bench().agents({ later: {} });
    expect(await condition("later")).toBe("True HostReachable");
    expect((await host("later")).status?.reachableChanges).toBeUndefined();
    expect(bench().events("later")).toEqual([expect.stringMatching(/^Normal HostReachable: /)]);
  });

  test("the Lease of a deleted host is removed once its agent no longer renews it", async () => {
    await bench().agents({ "mac-1": {}, "mac-2": {} });
    await bench().objects.startRemoval("", "mbhost/mac-1");
    await bench().advance(60_000);
    const leases = async () =>
      (await bench().objects.get(NAMESPACE_HOSTS, "leases")).items.map(
        ({ metadata }: { metadata: { name: string } }) => metadata.name,
      );
    expect(await leases()).toContain("mac-1");
    bench().agent("mac-1").fallSilent();
    await bench().advance(39_000);
    expect(await leases()).toContain("mac-1");
    await bench().advance(2_000);
    expect(await leases()).toEqual(["mac-2"]);
  });

  test("no endpoint is withdrawn if most hosts fall silent at once, until each has had time to return", async () => {
    await bench().agents({ "mac-1": {}, "mac-2": {}, "mac-3": {}, "mac-4": {} });
    await serve("mass", placement("mac-1"));
    const sliceVersion = async () =>
      (await bench().objects.get("mass", "endpointslices")).items[0]?.metadata.resourceVersion;
    const before = await sliceVersion();
    for (const name of ["mac-1", "mac-2", "mac-3"]) bench().agent(name).fallSilent();
    await bench().advance(EXPIRED_MS);
    for (const name of ["mac-1", "mac-2", "mac-3"]) expect(await condition(name)).toBe("Unknown MassExpiry");
    // Not all return at the same moment.
    await bench().agents({ "mac-2": {}, "mac-3": {} });
    await bench().advance(5_000);
    expect(await condition("mac-1")).toBe("Unknown MassExpiry");
    expect(await sliceVersion()).toBe(before);
    await bench().agents({ "mac-1": {} });
    expect(await condition("mac-1")).toBe("True HostReachable");
    expect(await sliceVersion()).toBe(before);
  });
});

describe("a controller that runs", () => {
  const clock = createSteppedClock();
  const agents = new Map<string, AgentSide>();
  let bench: Bench;
  let objects: Objects;

  beforeAll(async () => {
    bench = await startBench({ clock });
    objects = bench.objects;
    for (const [index, host] of ["mac-1", "mac-2", "mac-3"].entries())
      agents.set(host, await bench.agent(host, { address: `192.168.7.${40 + index}` }));
  });
  afterAll(() => bench?.[Symbol.asyncDispose]());

  const reachable = (name: string, expected: string) =>
    objects.until("", `mbhost/${name}`, (found: Host) => expect(reasonIn(found, "Reachable")).toBe(expected));
  const oneReplica = (ns: string, check: (replica: InferenceReplica | undefined) => void) =>
    objects.until(ns, "irep", ([replica, ...others]: InferenceReplica[]) => {
      expect(others).toEqual([]);
      check(replica);
    });

  /** Time passes, and all but `silent` renew in it. */
  const pass = async (ms: number, silent?: string) => {
    clock.advance(ms);
    for (const [host, agent] of agents) if (host !== silent) await agent.renew();
  };

  test("a silent host is withdrawn, then marked lost, and its replica is rescheduled; a host that returns is reachable", async () => {
    const ns = "silent";
    for (const host of agents.keys()) await reachable(host, "True HostReachable");
    await objects.createNamespace(ns);
    await bench.model(ns, "tiny");
    await bench.apply(
      inferenceService(ns, "chat", { hostLostSeconds: 120, placement: { hosts: ["mac-1", "mac-2"] } }),
    );
    await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
    const [replica] = await bench.replicas(ns);
    const host = replica?.spec.template.hostName ?? "";
    // However long it took until here.
    await pass(0);
    agents.get(host)?.fallSilent();
    for (let step = 0; step < 4; step += 1) await pass(15_000, host);
    await reachable(host, "False HostUnreachable");
    await objects.until(
      ns,
      "endpointslices",
      ([slice]: EndpointSlice[]) => expect(slice?.endpoints?.[0]?.conditions).toEqual(WITHDRAWN),
      OUR_SLICES,
    );
    await bench.serviceUntil(ns, "chat", ({ status }) => {
      expect(status).toMatchObject({ readyReplicas: 0, reason: "HostUnreachable" });
    });
    expect((await bench.replicas(ns)).map(({ metadata }) => metadata.uid)).toEqual([replica?.metadata.uid]);

    for (let step = 0; step < 6; step += 1) await pass(15_000, host);
    await objects.until("", `mbhost/${host}`, (found: Host) =>
      expect(reasonIn(found, "Lost")).toBe("True HostLost"),
    );
    const other = host === "mac-1" ? "mac-2" : "mac-1";
    await oneReplica(ns, (now) => expect(now?.spec.template.hostName).toBe(other));
    await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
    await vi.waitFor(
      async () => {
        expect(await objects.events(ns, "chat")).toContain("Warning HostLost");
        expect(await objects.events("default", host)).toContain("Warning HostUnreachable");
      },
      { timeout: 60_000, interval: 50 },
    );

    await agents.get(host)?.renew();
    await reachable(host, "True HostReachable");
    await objects.until("", `mbhost/${host}`, (found: Host) =>
      expect(reasonIn(found, "Lost")).toBe("False NotLost"),
    );
  });

  test("the silence of hosts restarts after an outage of the API server", async () => {
    await pass(1_000);
    await bench.cluster.stopApiServer();
    clock.advance(39_000);
    await bench.cluster.startApiServer();
    const renewed = [...agents.values()].map((agent) =>
      vi.waitFor(() => agent.renew(), { timeout: 60_000, interval: 50 }),
    );
    await Promise.all(renewed);
    for (const host of agents.keys()) {
      const found: Host = await objects.get("", `mbhost/${host}`);
      expect(reasonIn(found, "Reachable")).toBe("True HostReachable");
    }
  });
});
