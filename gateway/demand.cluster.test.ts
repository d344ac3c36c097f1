/** Demand Leases in the real API server. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test, vi } from "vitest";
import { demandLeaseName } from "../src/api/demand-lease.ts";
import type { InferenceService } from "../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES } from "../src/api/kinds.ts";
import { connect } from "../src/kube/client/connect.ts";
import { createClient } from "../src/kube/client/create-client.ts";
import { LEASES, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS } from "../src/kube/kinds.ts";
import { systemClock } from "../src/kube/system-clock.ts";
import type { KubeClient } from "../src/kube/types.ts";
import { writeAccountKubeconfig } from "../test/bed/identity.ts";
import { must } from "../test/bed/must.ts";
import { sharedCluster } from "../test/cluster/cluster.ts";
import { keepLines, type LogLine } from "../test/fixtures/log-lines.ts";
import { createDemandReporter, type DemandPorts } from "./demand.ts";
import { exampleModel } from "./testing/example-model.ts";
import { manualClock } from "./testing/manual-clock.ts";

const LEASE_RIGHT = {
  apiGroups: ["coordination.k8s.io"],
  resources: ["leases"],
  verbs: ["create", "patch"],
};
const within = { timeout: 30_000, interval: 20 };

async function openFarm() {
  const stack = new AsyncDisposableStack();
  const cluster = sharedCluster();
  const { name: namespace } = stack.use(await cluster.namespace());
  const connection = await connect({ kubeconfigPath: cluster.kubeconfig });
  stack.defer(() => connection.close());
  const client = createClient(connection);
  const manifest = { metadata: { namespace, name: "chat" }, spec: { modelRef: "chat" } };
  const { metadata } = must(await client.create(INFERENCE_SERVICES, manifest as InferenceService));
  const lines: LogLine[] = [];
  const ending = new AbortController();
  stack.defer(() => ending.abort());
  const ref = { namespace, name: demandLeaseName("chat") };
  const ports = { client, clock: systemClock, log: keepLines(lines), signal: ending.signal };
  return {
    client,
    namespace,
    ref,
    lines,
    model: exampleModel([], {
      key: `${namespace}/chat`,
      namespace,
      uid: metadata.uid ?? "",
      isIdleCapable: true,
    }),
    start: (gateway: string, changed: Partial<DemandPorts> = {}) =>
      createDemandReporter({ ...ports, gateway, ...changed }),
    holder: async () => must(await client.get(LEASES, ref)).spec?.holderIdentity,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

test("gateways that create the Lease of a service at the same time all report their demand, without a warning", async () => {
  await using farm = await openFarm();
  const { client } = farm;
  let created = 0;
  let release = (): void => {};
  const both = new Promise<void>((resolve) => {
    release = resolve;
  });
  const results: boolean[] = [];
  /** Delays each request until both gateways have found no Lease. */
  const delayed: Pick<KubeClient, "create" | "jsonPatch"> = {
    create: async (...args) => {
      created += 1;
      if (created === 2) release();
      await both;
      return client.create(...args);
    },
    jsonPatch: async (...args) => {
      const result = await client.jsonPatch(...args);
      results.push(result.ok);
      return result;
    },
  };
  for (const gateway of ["gateway-1", "gateway-2"]) farm.start(gateway, { client: delayed }).note(farm.model);
  await vi.waitFor(() => expect([results, farm.lines]).toEqual([[false, false, true], []]), within);
  expect(farm.lines).toEqual([]);
});

test("demand of a second gateway renews the Lease of the first one, and a deleted Lease is created again", async () => {
  await using farm = await openFarm();
  farm.start("gateway-1").note(farm.model);
  await vi.waitFor(async () => expect(await farm.holder()).toBe("gateway-1"), within);
  farm.start("gateway-2").note(farm.model);
  await vi.waitFor(async () => expect(await farm.holder()).toBe("gateway-2"), within);
  must(await farm.client.remove(LEASES, farm.ref));
  farm.start("gateway-3").note(farm.model);
  await vi.waitFor(async () => expect(await farm.holder()).toBe("gateway-3"), within);
  expect(farm.lines).toEqual([]);
});

test("a service without spec.idle gets no Lease", async () => {
  await using farm = await openFarm();
  farm.start("gateway-1").note({ ...farm.model, isIdleCapable: false });
  expect(must(await farm.client.list(LEASES, { namespace: farm.namespace })).items).toEqual([]);
});

test("a gateway without the right to Leases says so once, and reports its demand as soon as it has the right", async () => {
  await using farm = await openFarm();
  const account = { namespace: farm.namespace, name: "gateway" };
  must(await farm.client.create(SERVICE_ACCOUNTS, { metadata: account }));
  const dir = await mkdtemp(path.join(tmpdir(), "mb-demand-"));
  const file = path.join(dir, "kubeconfig");
  await writeAccountKubeconfig(sharedCluster(), { ...account, file });
  const limited = await connect({ kubeconfigPath: file });
  try {
    const clock = manualClock(Date.now());
    const client = createClient(limited);
    farm.start("gateway-1", { client, clock }).note(farm.model);
    await vi.waitFor(() => expect(farm.lines).toHaveLength(1), within);
    clock.advance(1_000);
    must(await farm.client.create(ROLES, { metadata: account, rules: [LEASE_RIGHT] }));
    const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "gateway" };
    const subjects = [{ kind: "ServiceAccount", ...account }];
    must(await farm.client.create(ROLE_BINDINGS, { metadata: account, roleRef, subjects }));
    await vi.waitFor(async () => {
      clock.advance(1_000);
      expect(await farm.holder()).toBe("gateway-1");
    }, within);
    expect(farm.lines.map(({ data }) => data.failure)).toEqual([expect.stringMatching(/cannot patch/)]);
  } finally {
    limited.close();
    await rm(dir, { recursive: true });
  }
});
