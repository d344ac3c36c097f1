import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { INFERENCE_REPLICAS, INFERENCE_SERVICES } from "../src/api/kinds.ts";
import { CONTROLLER_REVISIONS, ENDPOINT_SLICES, NAMESPACES, SERVICES } from "../src/kube/kinds.ts";
import { type Bench, inferenceService, startBench } from "../test/controller/bench.ts";

const WAIT = { timeout: 60_000, interval: 50 };
const OURS = "metalbridge.dev/service-uid";
const OUR_SLICES = "endpointslice.kubernetes.io/managed-by=agent.metalbridge.dev";
let bench: Bench;
beforeAll(async () => {
  bench = await startBench();
  await bench.agent("mac-1");
});
afterAll(() => bench?.[Symbol.asyncDispose]());

async function serveIn(ns: string, name = "chat"): Promise<void> {
  await bench.cluster.kubectl(["create", "namespace", ns]).catch(() => {});
  await bench.model(ns, "tiny");
  await bench.apply(inferenceService(ns, name, { replicas: 2 }));
  await bench.serviceUntil(ns, name, ({ status }) => expect(status?.phase).toBe("Ready"));
}

async function expectNothingLeft(ns: string): Promise<void> {
  await vi.waitFor(async () => {
    for (const kind of [INFERENCE_SERVICES, INFERENCE_REPLICAS]) {
      expect(await bench.client.list<never>(kind as never, { namespace: ns })).toMatchObject({
        value: { items: [] },
      });
    }
    for (const kind of [SERVICES, ENDPOINT_SLICES, CONTROLLER_REVISIONS]) {
      const options = { namespace: ns, labelSelector: OURS };
      expect(await bench.client.list<never>(kind as never, options)).toMatchObject({ value: { items: [] } });
    }
  }, WAIT);
}

test.each(["background", "foreground", "orphan"])(
  "deletion with %s propagation leaves nothing",
  async (propagation) => {
    const ns = `gone-${propagation}`;
    await serveIn(ns);
    await bench.cluster.kubectl([
      "delete",
      "isvc",
      "chat",
      "-n",
      ns,
      `--cascade=${propagation}`,
      "--timeout=180s",
    ]);
    await expectNothingLeft(ns);
  },
);

test("a deleted namespace is removed with services in any state", async () => {
  const ns = "gone-whole";
  await serveIn(ns);
  await bench.apply(inferenceService(ns, "waits", { modelRef: "absent" }));
  await bench.cluster.kubectl(["delete", "namespace", ns, "--timeout=180s"]);
  expect(await bench.client.get(NAMESPACES, { name: ns })).toMatchObject({
    ok: false,
    error: { kind: "notFound" },
  });
});

test("the Service stays until the last engine has stopped", async () => {
  const ns = "ordered";
  await bench.cluster.kubectl(["create", "namespace", ns]);
  await bench.model(ns, "tiny");
  const slow = await bench.agent("mac-slow", { labels: { slow: "yes" }, address: "192.168.7.30" });
  const placement = { hosts: ["mac-slow"] };
  await bench.apply(inferenceService(ns, "chat", { placement }));
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
  // Its agent drains for as long as it likes.
  slow.fallSilent();
  await bench.cluster.kubectl(["delete", "isvc", "chat", "-n", ns, "--wait=false"]);
  await vi.waitFor(async () => {
    const [replica] = await bench.replicas(ns);
    expect(replica?.metadata.deletionTimestamp).toBeDefined();
  }, WAIT);
  expect(await bench.client.get(SERVICES, { name: "chat", namespace: ns })).toMatchObject({ ok: true });
  expect(
    await bench.client.list(ENDPOINT_SLICES, { namespace: ns, labelSelector: OUR_SLICES }),
  ).toMatchObject({
    value: { items: [{}] },
  });
  await bench.agent("mac-slow", { labels: { slow: "yes" }, address: "192.168.7.30" });
  await expectNothingLeft(ns);
});

test("replicas of a deleted Host are rescheduled", async () => {
  const ns = "moved";
  await bench.agent("mac-2", { address: "192.168.7.31", labels: { pool: "b" } });
  await bench.agent("mac-3", { address: "192.168.7.32", labels: { pool: "b" } });
  await bench.cluster.kubectl(["create", "namespace", ns]);
  await bench.model(ns, "tiny");
  await bench.apply(
    inferenceService(ns, "chat", { placement: { hostSelector: { matchLabels: { pool: "b" } } } }),
  );
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
  const [first] = await bench.replicas(ns);
  const host = first?.spec.template.hostName ?? "";
  await bench.cluster.kubectl(["delete", "host", host]);
  await vi.waitFor(async () => {
    const [now, ...others] = await bench.replicas(ns);
    expect(others).toEqual([]);
    expect(["mac-2", "mac-3"]).toContain(now?.spec.template.hostName);
    expect(now?.spec.template.hostName).not.toBe(host);
  }, WAIT);
});

test("objects of a removed service are cleaned up, also at a later start", async () => {
  const ns = "swept";
  await serveIn(ns);
  await bench.stopController();
  // A user removes the finalizer while no controller runs.
  await bench.cluster.kubectl([
    "patch",
    "isvc",
    "chat",
    "-n",
    ns,
    "--type=json",
    "-p",
    '[{"op":"remove","path":"/metadata/finalizers"}]',
  ]);
  await bench.cluster.kubectl(["delete", "isvc", "chat", "-n", ns]);
  await bench.restartController();
  await expectNothingLeft(ns);
});
