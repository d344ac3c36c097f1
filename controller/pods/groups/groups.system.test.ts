/** Groups of pods with the real controller of LeaderWorkerSet, the real API server, controllers and scheduler, and kwok's nodes. */
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MANAGER_CONTROLLER } from "../../../src/api/group.ts";
import type { KubeObject } from "../../../src/kube/types.ts";
import type { LeaderWorkerSet, Pod } from "../../../src/kube/workload-objects.ts";
import { whyNoSimulatedNodes } from "../../../test/bed/kwok.ts";
import { scriptAnnotations } from "../../../test/bed/kwok-stages.ts";
import { startLws, whyNoLws } from "../../../test/bed/lws.ts";
import {
  type Bench,
  createNamespaceWithCache,
  inferenceService,
  startBench,
} from "../../../test/controller/bench.ts";
import { createObserver } from "../fixtures/observe.ts";
import { priorityClasses } from "../workload/priorities.ts";

const why = whyNoSimulatedNodes() ?? whyNoLws();
const NS = "groups";
const IMAGE = "registry.example/llama.cpp-rpc:b11669";
const RACK = "example.com/rack";
const NODES = ["a", "a", "b", "b"].map((rack, index) => ({ name: `cpu-${index}`, labels: { [RACK]: rack } }));

interface Slice extends KubeObject {
  readonly endpoints: readonly { readonly targetRef?: { readonly name: string } }[] | null;
}

describe.skipIf(why !== undefined)(`groups of pods (${why ?? "simulated nodes"})`, () => {
  let bench: Bench;
  let lws: AsyncDisposable | undefined;

  beforeAll(async () => {
    bench = await startBench({ nodes: NODES });
    for (const one of priorityClasses()) await bench.apply(one);
    await createNamespaceWithCache(bench, NS);
    await bench.model(NS, "tiny", { accelerator: "cpu" });
  });
  afterAll(async () => {
    await lws?.[Symbol.asyncDispose]();
    await bench?.[Symbol.asyncDispose]();
  });

  const until = (name: string, expected: object) =>
    bench.serviceUntil(NS, name, ({ status }) => expect(status).toMatchObject(expected));
  const { get, see, podsOf, statusesSince } = createObserver(NS, () => bench);
  const patch = (what: string, change: object) => bench.objects.patch(NS, what, change);
  const apply = (name: string, spec: object) =>
    bench.apply(inferenceService(NS, name, { image: IMAGE, rollout: { drainSeconds: 0 }, ...spec }));
  const groupOf = (name: string) => get<LeaderWorkerSet>(`leaderworkersets/${name}-group`);
  /** Leaders and workers that are not being deleted. */
  const ofGroup = (items: readonly Pod[], name: string): readonly Pod[] =>
    items.filter(
      ({ metadata: { labels, deletionTimestamp } }) =>
        labels?.["leaderworkerset.sigs.k8s.io/name"] === `${name}-group` && deletionTimestamp === undefined,
    );
  const groupPods = async (name: string) => ofGroup((await get<{ items: Pod[] }>("pods")).items, name);
  const seeGroupPods = (name: string, check: (pods: readonly Pod[]) => void) =>
    see<Pod[]>("pods", (items) => check(ofGroup(items, name)));
  const uidsOf = (pods: readonly Pod[]) => pods.map(({ metadata }) => metadata.uid);

  test("a service waits until LeaderWorkerSet is installed, and then continues", async () => {
    await apply("chat", { group: { size: 4 } });
    const { status } = await until("chat", { phase: "Pending", reason: "LeaderWorkerSetMissing" });
    expect(status?.message).toContain(
      "kubectl apply --server-side -f https://github.com/kubernetes-sigs/lws/",
    );
    lws = await startLws({ ...bench.cluster, dir: path.join(bench.cluster.dir, "lws") });
    await until("chat", { phase: "Ready", ready: "1/1", replicas: 1, updatedReplicas: 1 });
    const pods = await groupPods("chat");
    expect(pods.map(({ metadata }) => metadata.name).sort()).toEqual(
      ["", "-1", "-2", "-3"].map((worker) => `chat-group-0${worker}`),
    );
  });

  test("the Service sends requests to the leader only", async () => {
    await see<Slice[]>("endpointslices", (items) => {
      const ofService = items.filter(
        ({ metadata: { labels } }) => labels?.["kubernetes.io/service-name"] === "chat",
      );
      const names = ofService.flatMap(({ endpoints }) =>
        (endpoints ?? []).map(({ targetRef }) => targetRef?.name),
      );
      expect(names).toEqual(["chat-group-0"]);
    });
  });

  test("a group that loses one pod is recreated as a whole, and the service notices that it serves again", async () => {
    const before = await groupPods("chat");
    const { metadata } = await bench.service(NS, "chat");
    await bench.objects.startRemoval(NS, "pod/chat-group-0-2");
    await seeGroupPods("chat", (pods) => {
      expect(pods).toHaveLength(4);
      expect(uidsOf(pods).filter((uid) => uidsOf(before).includes(uid))).toEqual([]);
    });
    await until("chat", { phase: "Ready", ready: "1/1" });
    const seen = await statusesSince("chat", metadata.resourceVersion);
    expect(seen.map(({ ready }) => ready)).toContain("0/1");
    expect(seen.at(-1)).toMatchObject({ phase: "Ready", ready: "1/1" });
  });

  test("the scale subresource adds a group, and a change rolls group by group", async () => {
    await bench.objects.scale(NS, "isvc/chat", 2);
    await until("chat", { phase: "Ready", ready: "2/2", replicas: 2 });
    expect((await groupOf("chat")).spec.replicas).toBe(2);
    const before = await groupPods("chat");
    await patch("isvc/chat", { spec: { contextSize: 2048, rollout: { maxUnavailable: 1, maxSurge: 0 } } });
    await bench.serviceUntil(NS, "chat", ({ status, metadata: { generation } }) => {
      expect(status).toMatchObject({ phase: "Ready", ready: "2/2", updatedReplicas: 2 });
      expect(status?.observedGeneration).toBe(generation);
    });
    const now = await groupPods("chat");
    expect(uidsOf(now).filter((uid) => uidsOf(before).includes(uid))).toEqual([]);
    const created = (index: string) =>
      now
        .filter(({ metadata: { labels } }) => labels?.["leaderworkerset.sigs.k8s.io/group-index"] === index)
        .map(({ metadata: { creationTimestamp = "" } }) => Date.parse(creationTimestamp));
    // The next group is replaced once all pods of the last one are ready.
    expect(Math.min(...created("0"))).toBeGreaterThanOrEqual(Math.max(...created("1")));
  });

  test("a restarted controller changes neither the group nor its pods", async () => {
    const before = await groupOf("chat");
    await bench.restartController();
    await patch("isvc/chat", { metadata: { annotations: { touched: "yes" } } });
    await until("chat", { phase: "Ready", ready: "2/2" });
    const after = await groupOf("chat");
    const ours = ({ metadata: { managedFields = [] } }: LeaderWorkerSet) =>
      managedFields.filter(({ manager }) => manager === MANAGER_CONTROLLER);
    expect(after.metadata.generation).toBe(before.metadata.generation);
    expect(ours(after)).toEqual(ours(before));
    expect(ours(after)).toHaveLength(1);
  });

  test("a group with a topology runs on nodes with the same label, and keeps other groups away", async () => {
    await patch("isvc/chat", { spec: { suspend: true } });
    await until("chat", { phase: "Suspended", ready: "0/0" });
    await apply("rack", { replicas: 3, group: { size: 2, topologyKey: RACK } });
    await until("rack", { ready: "2/3", queuePosition: 1, phase: "WaitingForCapacity" });
    const placed = (await groupPods("rack")).filter(({ spec }) => spec.nodeName !== undefined);
    const racks = placed.map(({ spec, metadata }) => {
      const node = NODES.find(({ name }) => name === spec.nodeName);
      return `${metadata.labels?.["leaderworkerset.sigs.k8s.io/group-index"]} ${node?.labels[RACK]}`;
    });
    expect(new Set(racks).size).toBe(2);
    await bench.objects.remove(NS, "isvc/rack");
    expect((await get<{ items: LeaderWorkerSet[] }>("leaderworkersets")).items).toHaveLength(1);
  });

  test("a group takes one flavor for all its pods, and a preferred one that becomes free with the next rollout", async () => {
    await patch("isvc/chat", { spec: { suspend: true } });
    const flavors = [
      { name: "mac", hostSelector: {} },
      { name: "spare", nodeSelector: { spare: "yes" } },
      { name: "rack-b", nodeSelector: { [RACK]: "b" } },
    ];
    await bench.model(NS, "odd", { accelerator: "cpu", flavors });
    await apply("flavored", { modelRef: "odd", group: { size: 2 } });
    const { status } = await until("flavored", { phase: "Ready", ready: "1/1", flavor: { name: "rack-b" } });
    expect(status?.flavor?.skipped).toMatchObject([
      { name: "mac", reason: "FlavorExcluded" },
      { name: "spare", reason: "FlavorUnmatched" },
    ]);
    const nodes = async () => (await groupPods("flavored")).map(({ spec }) => spec.nodeName ?? "");
    expect((await nodes()).filter((name) => !["cpu-2", "cpu-3"].includes(name))).toEqual([]);

    await bench.objects.patch("", "node/cpu-0", { metadata: { labels: { spare: "yes" } } });
    await until("flavored", { phase: "Ready", flavor: { name: "rack-b", available: "spare" } });
    await patch("isvc/flavored", { spec: { contextSize: 2048 } });
    await until("flavored", { phase: "Ready", ready: "1/1", flavor: { name: "spare" } });
    await seeGroupPods("flavored", (pods) =>
      expect(pods.map(({ spec }) => spec.nodeName)).toEqual(["cpu-0", "cpu-0"]),
    );
    await bench.objects.remove(NS, "isvc/flavored");
  });

  test("a group whose image no node can pull says so", async () => {
    const podAnnotations = scriptAnnotations({ outcome: "image-pull" });
    await apply("absent", { group: { size: 2 }, podAnnotations });
    const { status } = await until("absent", { phase: "Degraded", reason: "ImageUnavailable", ready: "0/1" });
    expect(status?.message).toContain(`failed to resolve reference "${IMAGE}"`);
    expect(status?.message).toContain("set spec.image to an image that the nodes can pull");
    await bench.objects.remove(NS, "isvc/absent");
  });

  test("a service that leaves its group is served by it until its other pods are ready, and back", async () => {
    await patch("isvc/chat", { spec: { suspend: false, replicas: 1 } });
    await until("chat", { phase: "Ready", ready: "1/1" });
    const { metadata } = await bench.service(NS, "chat");
    await patch("isvc/chat", { spec: { group: null } });
    await bench.serviceUntil(NS, "chat", ({ status, metadata: { generation } }) => {
      expect(status).toMatchObject({ phase: "Ready", ready: "1/1", observedGeneration: generation });
    });
    await seeGroupPods("chat", (pods) => expect(pods).toEqual([]));
    expect(await podsOf("chat")).toHaveLength(1);
    const available = (await statusesSince("chat", metadata.resourceVersion)).map(
      ({ conditions }) => conditions?.find(({ type }) => type === "Available")?.status,
    );
    expect(new Set(available)).toEqual(new Set(["True"]));
    await patch("isvc/chat", { spec: { group: { size: 2 } } });
    await see<unknown[]>("deployments", (items) => expect(items).toEqual([]));
    await until("chat", { phase: "Ready", ready: "1/1" });
    expect(await groupPods("chat")).toHaveLength(2);
  });

  test("a kind that is no longer served, or removed, is reported; the pods keep serving, and the group continues once it is back", async () => {
    const crd = "crd/leaderworkersets.leaderworkerset.x-k8s.io";
    const [v1] = (await bench.objects.get("", crd)).spec.versions;
    const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
    const v2 = { name: "v2", served: true, storage: false, schema };
    const serve = (...versions: object[]) => bench.objects.patch("", crd, { spec: { versions } });
    const isMissing = async (says: string) => {
      const { status, metadata } = await until("chat", { reason: "LeaderWorkerSetMissing" });
      expect(status?.message).toContain(says);
      return metadata;
    };
    const [before, pods] = [await groupOf("chat"), uidsOf(await groupPods("chat"))];
    await serve({ ...v1, served: false }, v2);
    await isMissing("LeaderWorkerSet is installed in version v2, and groups of pods need v1; install it:");
    expect(await bench.service(NS, "chat")).toMatchObject({ status: { phase: "Degraded", ready: "1/1" } });
    await serve(v1);
    await until("chat", { phase: "Ready", ready: "1/1" });
    expect((await groupOf("chat")).metadata.uid).toBe(before.metadata.uid);
    expect(uidsOf(await groupPods("chat"))).toEqual(pods);

    await bench.objects.remove("", crd);
    const missing = await isMissing("the cluster lacks LeaderWorkerSet");
    await lws?.[Symbol.asyncDispose]();
    lws = await startLws({ ...bench.cluster, dir: path.join(bench.cluster.dir, "lws") });
    // The pods of the new group start once the cluster's garbage collector knows the kind again and has removed the old ones: minutes.
    await see<LeaderWorkerSet[]>("leaderworkersets", (items) => {
      const ofChat = items.filter(({ metadata: { name } }) => name === "chat-group");
      expect(ofChat.map(({ metadata }) => metadata.uid)).toEqual([
        expect.not.stringMatching(before.metadata.uid ?? ""),
      ]);
    });
    const phases = (await statusesSince("chat", missing.resourceVersion)).map(({ phase }) => phase);
    expect(phases, "no status may come from the removed group").not.toContain("Ready");
  });
});
