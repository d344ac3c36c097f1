import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { getCondition } from "../src/api/conditions.ts";
import type { InferenceService } from "../src/api/inference-service/index.ts";
import { CONTROLLER_REVISIONS, SERVICES } from "../src/kube/kinds.ts";
import { until } from "../test/bed/until.ts";
import { WITH_QUOTAS } from "../test/cluster/planes.ts";
import type { AgentSide } from "../test/controller/agent-side.ts";
import { type Bench, inferenceService, startBench } from "../test/controller/bench.ts";
import { createSteppedClock } from "../test/controller/stepped-clock.ts";

const NODE_PORT = { type: "NodePort", nodePort: 30_123 };
const clock = createSteppedClock();
let bench: Bench;
let agent: AgentSide;
beforeAll(async () => {
  bench = await startBench({ clock, controlPlane: { controllerManager: WITH_QUOTAS } });
  agent = await bench.agent("mac-1");
});
beforeEach(() => agent.renew());
/** Their services take room on the one host, and hold the node port. */
const used = new Set<string>();
afterEach(async () => {
  for (const name of used) await bench.objects.remove(name, "isvc", "service");
  used.clear();
});
afterAll(() => bench?.[Symbol.asyncDispose]());

/** In steps so small that the host stays reachable. */
async function pass(ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= 6_000) {
    clock.advance(Math.min(left, 6_000));
    await agent.renew();
  }
}

async function namespace(name: string): Promise<string> {
  used.add(name);
  await bench.objects.createNamespace(name);
  await bench.model(name, "tiny");
  return name;
}

/** A foreign Service on the node port that ours asks for. */
async function takeNodePort(ns: string): Promise<void> {
  const spec = { type: "NodePort", ports: [{ port: 80, nodePort: NODE_PORT.nodePort }] };
  await bench.apply({ apiVersion: "v1", kind: "Service", metadata: { name: "holder", namespace: ns }, spec });
}

/** In force: what is used has been counted; until then the API server refuses with another message. */
async function quota(ns: string, hard: Record<string, string>): Promise<void> {
  const metadata = { name: "few", namespace: ns };
  await until(
    async () => {
      // A kind is looked for every 30 s. A quota that was made before is counted again minutes later; a new one at once.
      await bench.objects.remove(ns, "resourcequota");
      await bench.apply({ apiVersion: "v1", kind: "ResourceQuota", metadata, spec: { hard } });
      // However long this takes, the host stays reachable.
      await agent.renew();
      const isCounted = ({ status = {} }: { status?: { hard?: object; used?: object } }) => {
        expect(status.hard).toEqual(hard);
        expect(Object.keys(status.used ?? {})).toEqual(Object.keys(hard));
      };
      await bench.objects.until(ns, "resourcequota/few", isCounted, { timeoutMs: 3_000 });
    },
    { timeoutMs: 150_000 },
  );
}

const degraded = ({ status }: InferenceService) => getCondition(status?.conditions, "Degraded");
const isReady = ({ status }: InferenceService) => expect(status?.phase).toBe("Ready");

/** Creates of one kind that the API server has refused, whoever asked. */
async function refusedCreates(resource: string): Promise<number> {
  const metrics = await bench.objects.raw("/metrics");
  return metrics
    .split("\n")
    .filter(
      (line) =>
        line.startsWith("apiserver_request_total{") &&
        new RegExp(`code="4\\d\\d".*resource="${resource}".*verb="POST"`).test(line),
    )
    .reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

test("a Service that the API server rejects is reported in the server's words and retried, and nothing is started", async () => {
  const ns = await namespace("port");
  await takeNodePort(ns);
  await bench.apply(inferenceService(ns, "chat", { endpoint: NODE_PORT }));
  const refused = await bench.serviceUntil(ns, "chat", ({ status }) =>
    expect(status).toMatchObject({ phase: "Pending", reason: "ApiObjectRefused" }),
  );
  const words = /create Service chat: .*provided port is already allocated/;
  expect(refused.status?.message).toMatch(words);
  expect(degraded(refused)).toMatchObject({ status: "True", reason: "ApiObjectRefused" });
  expect(degraded(refused)?.message).toMatch(words);
  expect(getCondition(refused.status?.conditions, "Available")?.status).toBe("False");
  expect(await bench.replicas(ns)).toEqual([]);
  await bench.objects.remove(ns, "service/holder");
  await pass(60_000);
  const ready = await bench.serviceUntil(ns, "chat", isReady);
  expect(degraded(ready)?.status).toBe("False");
});

test("a change that the API server refuses holds up no other change, and taking it back is acted on at once", async () => {
  const ns = await namespace("changed");
  await takeNodePort(ns);
  await bench.apply(inferenceService(ns, "chat"));
  await bench.serviceUntil(ns, "chat", isReady);
  await bench.apply(inferenceService(ns, "chat", { endpoint: NODE_PORT, replicas: 2 }));
  const refused = await bench.serviceUntil(ns, "chat", ({ status }) =>
    expect(status).toMatchObject({ phase: "Degraded", reason: "ApiObjectRefused", readyReplicas: 2 }),
  );
  expect(refused.status?.message).toMatch(/change Service chat: .*provided port is already allocated/);
  expect(getCondition(refused.status?.conditions, "Available")?.status).toBe("True");
  await bench.apply(inferenceService(ns, "chat", { endpoint: { type: "ClusterIP" }, replicas: 2 }));
  await bench.serviceUntil(ns, "chat", isReady);
});

test("a quota on Services is named, and one that is raised is used", async () => {
  const ns = await namespace("no-service");
  await quota(ns, { services: "0" });
  await bench.apply(inferenceService(ns, "chat"));
  const refused = await bench.serviceUntil(ns, "chat", ({ status }) =>
    expect(status).toMatchObject({ phase: "Pending", reason: "QuotaExceeded" }),
  );
  expect(refused.status?.message).toContain("exceeded quota: few, requested: services=1");
  await quota(ns, { services: "1" });
  await pass(60_000);
  await bench.serviceUntil(ns, "chat", isReady);
});

test("creates replicas within a quota, reports those beyond it, and retries them with backoff", async () => {
  const ns = await namespace("few-replicas");
  await quota(ns, { "count/inferencereplicas.metalbridge.dev": "2" });
  await bench.apply(inferenceService(ns, "chat", { replicas: 4 }));
  const refused = await bench.serviceUntil(ns, "chat", ({ status }) =>
    expect(status).toMatchObject({ phase: "Degraded", reason: "QuotaExceeded", ready: "2/4" }),
  );
  expect(refused.status?.message).toMatch(/create InferenceReplica chat-.*exceeded quota: few.*and 1 more/);
  expect(getCondition(refused.status?.conditions, "Placed")).toMatchObject({
    status: "Unknown",
    reason: "QuotaExceeded",
  });
  const before = await refusedCreates("inferencereplicas");
  // Other services are created and deleted meanwhile, and each triggers a placement pass.
  const beside = await namespace("beside");
  await bench.apply(inferenceService(beside, "other"));
  await bench.serviceUntil(beside, "other", isReady);
  await pass(30_000);
  await bench.objects.remove(beside, "isvc/other");
  await bench.apply(inferenceService(beside, "third"));
  await bench.serviceUntil(beside, "third", isReady);
  // Two replicas are refused in each pass: after at least half of 1, 2, 4, 8 and 16 s, and for a few changes.
  expect((await refusedCreates("inferencereplicas")) - before).toBeLessThanOrEqual(2 * 8);
  await quota(ns, { "count/inferencereplicas.metalbridge.dev": "4" });
  await pass(60_000);
  await bench.serviceUntil(ns, "chat", isReady);
});

test("reports objects that an unreachable admission webhook holds back", async () => {
  const ns = await namespace("webhook");
  const rule = { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["services"] };
  await bench.apply({
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "ValidatingWebhookConfiguration",
    metadata: { name: "gone" },
    webhooks: [
      {
        name: "gone.example.com",
        clientConfig: { url: "https://127.0.0.1:1/" },
        rules: [rule],
        namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": ns } },
        failurePolicy: "Fail",
        sideEffects: "None",
        admissionReviewVersions: ["v1"],
      },
    ],
  });
  const probe = { metadata: { name: "probe", namespace: ns }, spec: { ports: [{ port: 80 }] } };
  await until(async () => {
    const made = await bench.client.create(SERVICES, probe);
    if (made.ok) await bench.client.remove(SERVICES, probe.metadata);
    expect(made.ok).toBe(false);
  });
  await bench.apply(inferenceService(ns, "chat"));
  const refused = await bench.serviceUntil(ns, "chat", ({ status }) =>
    expect(status).toMatchObject({ phase: "Pending", reason: "ApiObjectRefused" }),
  );
  expect(refused.status?.message).toContain('failed calling webhook "gone.example.com"');
  await bench.objects.remove("", "validatingwebhookconfiguration/gone");
  await until(async () => {
    await pass(60_000);
    isReady(await bench.service(ns, "chat"));
  });
});

test("a ControllerRevision that is not ours and has the name of ours is named, left alone, and not asked for every second", async () => {
  const ns = await namespace("foreign-revision");
  await bench.apply(inferenceService(ns, "chat"));
  await bench.serviceUntil(ns, "chat", isReady);
  const ref = await bench.client.list(CONTROLLER_REVISIONS, { namespace: ns });
  const name = (ref.ok && ref.value.items[0]?.metadata.name) || "";
  await bench.stopController();
  await bench.objects.remove(ns, `controllerrevision/${name}`);
  await bench.apply({
    apiVersion: "apps/v1",
    kind: "ControllerRevision",
    metadata: { name, namespace: ns },
    revision: 1,
    data: {},
  });
  await bench.restartController();
  const refused = await bench.serviceUntil(ns, "chat", ({ status }) =>
    expect(status).toMatchObject({ phase: "Degraded", reason: "ObjectNameTaken", ready: "1/1" }),
  );
  expect(refused.status?.message).toContain(`a ControllerRevision named ${name} exists that is not of this`);
  expect(degraded(refused)).toMatchObject({ status: "True", reason: "ObjectNameTaken" });
  await pass(60_000);
  const before = await refusedCreates("controllerrevisions");
  await pass(60_000);
  // Once a second it would be sixty times; a pass of 6 s gives each timer of 3 s one turn.
  expect((await refusedCreates("controllerrevisions")) - before).toBeLessThanOrEqual(40);
  expect((await bench.service(ns, "chat")).status?.reason).toBe("ObjectNameTaken");
  await bench.objects.remove(ns, `controllerrevision/${name}`);
  await pass(60_000);
  await bench.serviceUntil(ns, "chat", isReady);
});
