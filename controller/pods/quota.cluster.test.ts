/**
 * Services in a queue of Kueue, with the real definitions of Kueue, API server, scheduler and controller. The test acts as
 * Kueue: a policy adds the gate of Kueue's webhook, and the test writes Workloads and removes the gate.
 */
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findKueueCrds } from "../../scripts/setup/definitions.mjs";
import { getCondition } from "../../src/api/conditions.ts";
import { PODS } from "../../src/kube/kinds.ts";
import type { Deployment, Pod, StatusCondition } from "../../src/kube/workload-objects.ts";
import { whyNoSimulatedNodes } from "../../test/bed/kwok.ts";
import { must } from "../../test/bed/must.ts";
import { until as poll } from "../../test/bed/until.ts";
import {
  type Bench,
  createNamespaceWithCache,
  inferenceService,
  startBench,
} from "../../test/controller/bench.ts";
import { createObserver } from "./fixtures/observe.ts";

const crds: string | undefined = findKueueCrds();
const why = whyNoSimulatedNodes() ?? (crds === undefined ? "the definitions of Kueue" : undefined);
const NS = "quota";
const QUEUE = "kueue.x-k8s.io/queue-name";
const GATE = "kueue.x-k8s.io/admission";
const OURS = "metalbridge.dev/placement";
const NO_ROOM = "couldn't assign flavors to pod set main: insufficient unused quota for cpu";

describe.skipIf(why !== undefined)(`queues of Kueue (${why ?? "simulated nodes"})`, () => {
  let bench: Bench;
  const { get, seePods } = createObserver(NS, () => bench);

  beforeAll(async () => {
    bench = await startBench({ nodes: [{ name: "node-1", labels: { flavor: "spot" } }] });
    await createNamespaceWithCache(bench, NS);
    await bench.model(NS, "tiny", { accelerator: "cpu" });
  });
  afterAll(() => bench?.[Symbol.asyncDispose](), 60_000);

  const createService = (name: string, spec: object = {}) => {
    const service = inferenceService(NS, name, spec) as { metadata: object };
    return bench.apply({ ...service, metadata: { ...service.metadata, labels: { [QUEUE]: "team-a" } } });
  };
  const until = (name: string, expected: object, admitted: object) =>
    bench.serviceUntil(NS, name, ({ status }) => {
      expect(status).toMatchObject(expected);
      expect(getCondition(status?.conditions, "QueueAdmitted")).toMatchObject(admitted);
    });
  const gatesOf = ({ spec }: Pod) => (spec.schedulingGates ?? []).map(({ name }) => name);
  const onlyPodOf = (name: string, besides: readonly string[] = []) =>
    seePods(name, (pods) => {
      const found = pods.filter(({ metadata }) => !besides.includes(metadata.name));
      expect(found).toHaveLength(1);
      return found[0] as Pod;
    });

  async function writeWorkload({ metadata }: Pod, ...conditions: Partial<StatusCondition>[]): Promise<void> {
    const kueue = { apiVersion: "kueue.x-k8s.io/v1beta2", kind: "Workload" };
    const { name, uid } = metadata;
    const owner = { apiVersion: "v1", kind: "Pod", name, uid: uid ?? "", controller: true };
    const template = { spec: { containers: [{ name: "engine", image: "engine:1" }] } };
    await bench.apply({
      ...kueue,
      metadata: { name: `pod-${name}`, namespace: NS, ownerReferences: [owner] },
      spec: { queueName: "team-a", podSets: [{ name: "main", count: 1, template }] },
    });
    const lastTransitionTime = new Date().toISOString();
    const status = {
      conditions: conditions.map((one) => ({ message: "", lastTransitionTime, ...one })),
    };
    await bench.objects.patch(NS, `workloads.kueue.x-k8s.io/pod-${name}`, { status }, "status");
  }

  /** Adds the node labels of the quota's flavor and removes the gate, as Kueue does. */
  async function admit(pod: Pod): Promise<void> {
    await writeWorkload(
      pod,
      { type: "QuotaReserved", status: "True", reason: "QuotaReserved" },
      { type: "Admitted", status: "True", reason: "Admitted" },
    );
    const { schedulingGates = [] } = (await get<Pod>(`pod/${pod.metadata.name}`)).spec;
    const index = schedulingGates.findIndex(({ name }) => name === GATE);
    const operations = [
      { op: "add", path: "/spec/nodeSelector", value: { flavor: "spot" } },
      { op: "test", path: `/spec/schedulingGates/${index}/name`, value: GATE },
      { op: "remove", path: `/spec/schedulingGates/${index}` },
    ] as const;
    must(await bench.client.jsonPatch(PODS, { name: pod.metadata.name, namespace: NS }, operations));
  }

  test("without Kueue the pods start, and a condition says that no quota applies", async () => {
    await createService("free");
    const unmanaged = { status: "Unknown", reason: "QueueNotManaged" };
    await until("free", { phase: "Ready" }, unmanaged);
    const { metadata, spec } = await get<Deployment>("deployment/free");
    expect(metadata.labels?.[QUEUE]).toBe("team-a");
    expect(spec.template.metadata?.labels?.[QUEUE]).toBe("team-a");
  });

  test("pods wait for quota without failing, start once admitted, and wait again after an eviction", async () => {
    await bench.objects.install(path.join(crds ?? "", "kueue.x-k8s.io_workloads.yaml"));
    await gateByWebhook(bench);
    // A leader looks for optional kinds every ten minutes.
    await bench.restartController();
    await createService("chat");
    const waits = { status: "False", reason: "WaitingForQuota" };
    const waiting = { phase: "WaitingForCapacity", reason: "WaitingForQuota", readyReplicas: 0 };
    await until(
      "chat",
      { ...waiting, message: expect.stringContaining("has not created a Workload") },
      waits,
    );
    const first = await onlyPodOf("chat");
    expect(gatesOf(first)).toEqual([GATE]);
    await writeWorkload(first, {
      type: "QuotaReserved",
      status: "False",
      reason: "Pending",
      message: NO_ROOM,
    });
    const message = `0 of 1 replicas ready; 1 of 1 pods waits for quota in queue team-a: Pending: ${NO_ROOM}`;
    const { status } = await until("chat", { ...waiting, message }, waits);
    expect(getCondition(status?.conditions, "Degraded")?.status).toBe("False");
    expect(getCondition(status?.conditions, "Placed")).toMatchObject(waits);

    await admit(first);
    await until("chat", { phase: "Ready" }, { status: "True", reason: "Admitted" });

    await writeWorkload(first, {
      type: "Evicted",
      status: "True",
      reason: "Preempted",
      message: "for a workload",
    });
    const evicted = { status: "False", reason: "QueueEvicted" };
    await until("chat", {}, { ...evicted, message: expect.stringMatching(/Preempted: for a workload$/) });
    await bench.objects.remove(NS, `pod/${first.metadata.name}`);
    const second = await onlyPodOf("chat", [first.metadata.name]);
    await until("chat", waiting, waits);
    await admit(second);
    await until("chat", { phase: "Ready" }, { status: "True" });
  });

  test("our scheduling gate is removed only after Kueue's, and the pod keeps the node labels of its quota", async () => {
    await createService("auto", { placement: { mode: "Auto" } });
    const held = await onlyPodOf("auto");
    expect(gatesOf(held).sort()).toEqual([GATE, OURS]);
    await until("auto", { reason: "WaitingForQuota" }, { status: "False" });
    expect(gatesOf(await onlyPodOf("auto")).sort()).toEqual([GATE, OURS]);
    await admit(held);
    await until("auto", { phase: "Ready" }, { status: "True" });
    const { metadata, spec } = await onlyPodOf("auto");
    expect(metadata.uid).toBe(held.metadata.uid);
    expect(spec).toMatchObject({ nodeName: "node-1", nodeSelector: { flavor: "spot" } });
  });
});

/** Adds the gate to pods that name a queue, as the webhook of Kueue does, and waits until it is in force. */
async function gateByWebhook({ apply, objects }: Bench): Promise<void> {
  const apiVersion = "admissionregistration.k8s.io/v1";
  const name = "kueue";
  const expression = `Object{spec: Object.spec{schedulingGates: [Object.spec.schedulingGates{name: "${GATE}"}]}}`;
  await apply({
    apiVersion,
    kind: "MutatingAdmissionPolicy",
    metadata: { name },
    spec: {
      failurePolicy: "Fail",
      reinvocationPolicy: "Never",
      matchConstraints: {
        objectSelector: { matchExpressions: [{ key: QUEUE, operator: "Exists" }] },
        resourceRules: [
          { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods"] },
        ],
      },
      mutations: [{ patchType: "ApplyConfiguration", applyConfiguration: { expression } }],
    },
  });
  const spec = { policyName: name };
  await apply({ apiVersion, kind: "MutatingAdmissionPolicyBinding", metadata: { name }, spec });
  const probe = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "probe", namespace: NS, labels: { [QUEUE]: "team-a" } },
    spec: { containers: [{ name: "a", image: "a:1" }] },
  };
  await poll(async () => {
    const { spec } = await objects.create(probe, { dryRun: true });
    expect(spec.schedulingGates).toContainEqual({ name: GATE });
  });
}
