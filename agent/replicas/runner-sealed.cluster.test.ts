/** A sealed replica behind the gate: announced once its slice has the host's certificate, and served to the clients in its spec. */
import { expect, test, vi } from "vitest";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { sharedCluster } from "../../test/cluster/cluster.ts";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { createBench } from "../../test/replicas/bench.ts";
import { agentOf, createIdentity, statusOf } from "../gate/fixtures/sealed.ts";

const it = findLlamaServer() === undefined ? test.skip : test;
// Slower than the test: the list is taken over because it changes, not because the files are read again.
const timings = { secretsMs: 600_000, liveProbeMs: 100 };
const WAIT = { timeout: 30_000, interval: 20 };

it("a sealed replica serves the clients that its spec names, and a change of the list takes effect at once", async () => {
  const cluster = sharedCluster();
  await using namespace = await cluster.namespace();
  await using bench = await createBench(cluster.kubeconfig, namespace.name);
  const [gateway, relay] = [createIdentity("gateway"), createIdentity("relay")];
  const first = await bench.startAgent({ timings });
  await bench.createReplica("chat-0-s", (spec) => {
    Object.assign(spec, { clientFingerprints: [gateway.fingerprint] });
    Object.assign(spec.template, { transport: "Sealed" });
  });
  const refused = await bench.untilReason("chat-0-s", "EndpointRefused");
  expect(refused.status?.message).toContain("does not have the certificate of this host yet");
  const fingerprint = first.transport.fingerprint();
  await bench.objects.patch(namespace.name, "endpointslices/chat-0-s", {
    metadata: { annotations: { "metalbridge.dev/fingerprints": fingerprint } },
  });
  const ready = await bench.untilPhase("chat-0-s", "Ready");
  const ask = (client: typeof gateway) => statusOf(ready.status?.port ?? 0, agentOf(client), bench.address);

  const served = expect.toSatisfy((status: unknown) => typeof status === "number");
  expect(await ask(gateway)).toEqual(served);
  expect(await ask(relay)).toBe("ECONNRESET");
  await expect(fetch(`http://${bench.address}:${ready.status?.port}/health`)).rejects.toThrow();

  const list = (clients: readonly (typeof gateway)[]) =>
    bench.patchSpec("chat-0-s", { clientFingerprints: clients.map((one) => one.fingerprint) });
  await list([relay]);
  await vi.waitFor(async () => expect(await ask(relay)).toEqual(served), WAIT);
  expect(await ask(gateway)).toBe("ECONNRESET");

  // The route outlives the agent, and the next one adopts it.
  await first.end();
  expect(await ask(relay)).toEqual(served);
  const second = await bench.startAgent({ timings });
  await list([gateway]);
  await vi.waitFor(async () => expect(await ask(gateway)).toEqual(served), WAIT);
  expect(await ask(relay)).toBe("ECONNRESET");
  const after: InferenceReplica | undefined = await bench.replica("chat-0-s");
  expect(after?.status).toMatchObject({ phase: "Ready", pid: ready.status?.pid, restarts: 0 });
  expect(await second.transport.file()).toContain("current.pem");
  expect(second.transport.fingerprint()).toBe(fingerprint);
  await list([]);
  await bench.untilReason("chat-0-s", "GateUnavailable");
  await bench.untilAnnounced("chat-0-s", false);
});
