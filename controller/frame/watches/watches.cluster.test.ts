import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { INFERENCE_SERVICES, MODELS } from "../../../src/api/kinds.ts";
import { connect, type KubeConnection } from "../../../src/kube/client/connect.ts";
import { createClient } from "../../../src/kube/client/create-client.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";
import type { KubeClient } from "../../../src/kube/types.ts";
import { startReflector } from "../../../src/kube/watch/reflector.ts";
import { sharedCluster } from "../../../test/cluster/cluster.ts";
import { quietLog } from "../../../test/cluster/quiet-log.ts";
import { startWatches, whenWatchesSynced } from "./watches.ts";

const cluster = sharedCluster();
const stop = new AbortController();
const weights: string[] = [];
let connection: KubeConnection;
let client: KubeClient;
let ns: Awaited<ReturnType<typeof cluster.namespace>>;

beforeAll(async () => {
  ns = await cluster.namespace();
  connection = await connect({ kubeconfigPath: cluster.kubeconfig });
  client = createClient(connection);
  const none = () => undefined;
  const { watches, subscribe } = startWatches(
    { connection, clock: systemClock, log: quietLog, signal: stop.signal, hostsOnly: true, startReflector },
    { isRenewal: () => false, onInterrupted: none },
  );
  subscribe({
    onModel: none,
    onService: none,
    onKind: none,
    onBenchmarkFacts: none,
    onReplica: none,
    onPerformance: none,
    onHost: none,
    onPrefetched: none,
    onNode: none,
    onNodeSlice: none,
    onDeviceClass: none,
    onNodeReport: none,
    onGroupKind: none,
    onBenchmarks: none,
    onBackend: none,
    onBackendMember: none,
    onHostMember: none,
    onRenewal: none,
    onDemand: none,
    onWeights: (model) => model.startsWith(`${ns.name}/`) && weights.push(model),
  });
  await whenWatchesSynced(watches);
});

afterAll(async () => {
  stop.abort();
  connection?.close();
  await ns?.[Symbol.asyncDispose]();
});

async function apply(kind: typeof MODELS | typeof INFERENCE_SERVICES, name: string, spec: object) {
  const object = {
    apiVersion: `${kind.group}/${kind.version}`,
    kind: kind.kind,
    metadata: { name, namespace: ns.name },
    spec,
  };
  const applied = await client.apply(kind as typeof MODELS, object as never, { manager: "test" });
  if (!applied.ok) throw new Error(applied.error.message);
}

const model = (name: string, accelerator: string) =>
  apply(MODELS, name, { source: `hf://org/${name}/m.gguf`, hardware: { accelerator } });

/** Models that are passed again because of `change`. */
async function passedAfter(change: Promise<void>, expected: readonly string[]): Promise<void> {
  weights.length = 0;
  await change;
  const keys = expected.map((name) => `${ns.name}/${name}`).sort();
  await vi.waitFor(() => expect([...new Set(weights)].sort()).toEqual(keys), { timeout: 60_000 });
}

test("drafts and adapters are passed again when they are named, and when the Model that they run with moves", async () => {
  const service = (more: object) => apply(INFERENCE_SERVICES, "chat", { modelRef: "main", ...more });
  const speculativeDecoding = { type: "draft", draftModelRef: "draft" };
  const loraAdapters = [{ modelRef: "adapter" }];
  await passedAfter(service({ speculativeDecoding }), ["draft", "main"]);
  await passedAfter(service({ speculativeDecoding, loraAdapters }), ["adapter", "draft", "main"]);
  await passedAfter(model("main", "metal"), ["adapter", "draft", "main"]);
  await passedAfter(model("main", "cpu"), ["adapter", "draft", "main"]);
});
