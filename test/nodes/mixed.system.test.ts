/** Services with `placement.on: Auto` on a host and a real node, while either of them dies, drains and comes back. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import { DEPLOYMENTS, ENDPOINT_SLICES } from "../../src/kube/kinds.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { allKinds, type Clients, lostOf, startClients } from "../bed/load/clients.ts";
import type { Asked } from "../bed/load/protocol.ts";
import { whyNoRealNode } from "../bed/node/parts.ts";
import { localVolume } from "../bed/node/volumes.ts";
import { until } from "../bed/until.ts";
import { type PodsBed, startPodsBed } from "./bed.ts";

/** Answers take long enough that some are in flight at any moment. */
const ENDLESS = { endless: true, layers: 8, embeddingSize: 256, contextLength: 8_192 } as const;
const LEASE_SECONDS = 4;
const GRACE_SECONDS = 8;
const LABEL = "metalbridge.dev/service=chat";

describeUnless(whyNoRealNode(), "services on a host and a node", () => {
  let bed: PodsBed;
  let clients: Clients;

  beforeAll(async () => {
    // Clients are where no pod is, on a node that stays.
    const taints = [{ key: "clients", effect: "NoSchedule" }];
    bed = await startPodsBed({
      nodes: [
        { name: "node-1", taints, leaseSeconds: LEASE_SECONDS },
        { name: "node-2", leaseSeconds: LEASE_SECONDS },
      ],
      model: ENDLESS,
      agents: [{ hostName: "host-1", config: { disk: { reserve: 0 } } }],
      controllerManagerArgs: [`--node-monitor-grace-period=${GRACE_SECONDS}s`, "--node-monitor-period=1s"],
    });
    await untilHost("Ready");
    await localVolume(bed.farm.objects, bed.cluster.node("node-2"), { size: "4Gi" });
  });
  afterAll(() => bed?.[Symbol.asyncDispose]());

  const startLoad = async () => {
    const { namespace } = bed.cluster.network.station("node-1");
    // Short answers: a slow machine needs seconds for a long one.
    const kinds = allKinds().map((order) => ({ ...order, maxTokens: Math.min(order.maxTokens, 60) }));
    const orders = { url: await bed.url("chat"), clients: kinds, tracks: true };
    return startClients(namespace, orders);
  };
  const untilHost = (type: string) =>
    bed.farm.objects.until("", "mbhost/host-1", (host) =>
      expect(host?.status?.conditions).toContainEqual(expect.objectContaining({ type, status: "True" })),
    );
  const replicas = () => bed.farm.objects.list(INFERENCE_REPLICAS, LABEL);
  const podsWanted = async () => (await bed.farm.objects.read(DEPLOYMENTS, "chat")).spec.replicas;
  /** `address:port` of each endpoint that gets new connections. */
  const endpoints = async (): Promise<readonly string[]> => {
    const slices: readonly Slice[] = await bed.farm.objects.list(
      ENDPOINT_SLICES,
      "kubernetes.io/service-name=chat",
    );
    return slices.flatMap(({ endpoints, ports }) =>
      (endpoints ?? [])
        .filter(({ conditions }) => conditions.ready)
        .map(({ addresses }) => `${addresses[0]}:${ports?.[0]?.port}`),
    );
  };
  const untilEndpoints = (expected: readonly string[]) =>
    until(async () => expect([...(await endpoints())].sort()).toEqual([...expected].sort()));
  const onHost = async () => {
    const [replica] = await replicas();
    return `${bed.cluster.network.gateway}:${replica.status.port}`;
  };
  const inPod = async () => {
    const [pod] = await bed.pods("chat");
    return `${pod?.status?.podIP}:8080`;
  };
  const ready = (count: number, of = count) => ({ ready: `${count}/${of}`, readyReplicas: count });
  /** Failures among requests that ended after so many others. */
  const failedAfter = (count: number) => clients.asked.slice(count).filter(({ failure }) => failure !== "");
  const placesOf = (asked: readonly Asked[]) => [...new Set(asked.map(({ endpoint }) => endpoint))];

  test("an Auto service fills hosts first, and runs in pods what finds no room there", async () => {
    const rollout = { drainSeconds: 30 };
    const placement = { on: "Auto", spread: "Required" };
    const sizes = { contextSize: 8_192, parallelSlots: 4, replicas: 1 };
    await bed.apply("chat", { ...sizes, rollout, placement }, { hardware: { accelerator: "cpu" } });
    await bed.until("chat", { phase: "Ready", ...ready(1) });
    expect(await replicas()).toHaveLength(1);
    expect([await podsWanted(), await bed.pods("chat")]).toEqual([0, []]);
    await bed.patch("isvc/chat", { spec: { replicas: 2 } });
    await bed.until("chat", { phase: "Ready", ...ready(2) });
    expect(await replicas()).toHaveLength(1);
    await untilEndpoints([await onHost(), await inPod()]);
    clients = await startLoad();
    await clients.untilEachAsked(2);
  });

  test("a drain of the host moves its replica to a pod and back, and no request fails", async () => {
    await bed.patch("mbhost/host-1", { spec: { drain: true } });
    await untilHost("Drained");
    await bed.until("chat", { phase: "Ready", ...ready(2) });
    expect(await replicas()).toEqual([]);
    expect(await bed.pods("chat")).toHaveLength(2);
    await clients.untilEachAsked(1);
    await bed.patch("mbhost/host-1", { spec: { drain: false } });
    await until(async () => expect(await bed.pods("chat")).toHaveLength(1));
    await bed.until("chat", { phase: "Ready", ...ready(2) });
    await clients.untilEachAsked(1);
    expect(lostOf(clients.asked)).toEqual([]);
  });

  test("a killed agent costs no request, and a killed engine only those that were sent to it", async () => {
    const [host, pod] = [await onHost(), await inPod()];
    const [{ status }] = await replicas();
    await bed.farm.agent().kill("SIGKILL");
    await clients.untilEachAsked(1);
    expect(lostOf(clients.asked)).toEqual([]);
    process.kill(status.pid, "SIGKILL");
    // Without an agent nothing withdraws the endpoint: half of the new connections are refused, and the pod has the rest.
    await until(() => expect(failedAfter(0).length).toBeGreaterThan(4));
    await clients.untilEachAsked(1);
    bed.farm.restartAgent();
    await until(async () => {
      const [next] = await replicas();
      expect(next.status).toMatchObject({ phase: "Ready", pid: expect.any(Number) });
      expect(next.status.pid).not.toBe(status.pid);
    });
    await bed.until("chat", { phase: "Ready", ...ready(2) });
    await untilEndpoints([await onHost(), pod]);
    await clients.untilEachAsked(1);
    expect(placesOf(failedAfter(0))).toEqual([host]);
  });

  test("a node that loses power costs only what was sent to it, until Kubernetes withdraws it", async ({
    annotate,
  }) => {
    const [host, pod] = [await onHost(), await inPod()];
    const before = clients.asked.length;
    const killedAt = performance.now();
    await bed.cluster.node("node-2").kill();
    let restAt: number;
    try {
      await untilEndpoints([host]);
      await annotate(`withdrawn ${Math.round(performance.now() - killedAt)} ms after the node's end`);
      await bed.until("chat", ready(1, 2));
      // Connections that were kept to the pod end by their clients' patience.
      await clients.untilEachAsked(3);
      const answered = clients.asked.slice(before).filter(({ failure }) => failure === "");
      expect(answered.length).toBeGreaterThan(10);
      const failed = failedAfter(before);
      await annotate(`${failed.length} requests failed, ${answered.length} were answered`);
      expect(placesOf(failed)).toEqual([pod]);
      restAt = clients.asked.length;
      await clients.untilEachAsked(2);
      expect(failedAfter(restAt)).toEqual([]);
    } finally {
      // The next test needs it, whatever this one has found.
      await bed.cluster.node("node-2").boot();
    }
    await bed.until("chat", { phase: "Ready", ...ready(2) });
    await untilEndpoints([host, await inPod()]);
    await clients.untilEachAsked(1);
    expect(failedAfter(restAt)).toEqual([]);
  });

  test("moves to the other side once that is preferred, and no request fails", async () => {
    const before = clients.asked.length;
    await bed.patch("isvc/chat", { spec: { replicas: 1, placement: { prefer: "Pods" } } });
    await until(async () => expect(await replicas()).toEqual([]));
    await bed.until("chat", { phase: "Ready", ...ready(1) });
    await clients.untilEachAsked(1);
    await clients.stop();
    expect(failedAfter(before)).toEqual([]);
  });
});

interface Slice {
  readonly endpoints:
    | readonly { readonly addresses: readonly string[]; readonly conditions: { readonly ready: boolean } }[]
    | null;
  readonly ports?: readonly { readonly port: number }[];
}
