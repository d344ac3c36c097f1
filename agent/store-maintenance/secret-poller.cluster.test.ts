/** A corrected Secret is seen, at a cost that does not grow with the Models that wait for it: on the real API server. */
import { expect, test, vi } from "vitest";
import type { PrefetchOrder } from "../../src/api/host.ts";
import { connect } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { SECRETS } from "../../src/kube/kinds.ts";
import { sharedCluster } from "../../test/cluster/cluster.ts";
import { ggufBytes, sendFile, startOrigin } from "../../test/fixtures/origin.ts";
import { steppedClock } from "../store/fixtures/stepped-clock.ts";
import { silentLog, startStore } from "../store/fixtures/store.ts";
import { createPrefetcher } from "./prefetcher.ts";
import { createSecretPoller } from "./secret-poller.ts";

const patiently = { timeout: 30_000, interval: 10 };

async function startClient() {
  const cluster = sharedCluster();
  const namespace = await cluster.namespace();
  const connection = await connect({ kubeconfigPath: cluster.kubeconfig });
  const client = createClient(connection);
  const reads = vi.spyOn(client, "get");
  const end = new AbortController();
  return {
    client,
    namespace: namespace.name,
    signal: end.signal,
    readsSince: () => reads.mock.calls.splice(0).length,
    apply: async (name: string, data: Record<string, string>) => {
      const ref = { name, namespace: namespace.name };
      await client.remove(SECRETS, ref);
      const base64 = Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString("base64")]);
      const object = { apiVersion: "v1", kind: "Secret", metadata: ref, data: Object.fromEntries(base64) };
      expect(await client.create(SECRETS, object)).toMatchObject({ ok: true });
    },
    [Symbol.asyncDispose]: async () => {
      end.abort();
      connection.close();
      await namespace[Symbol.asyncDispose]();
    },
  };
}

test("a changed Secret that five prefetches wait for is detected by one read, followed by one read per prefetch", async () => {
  await using on = await startClient();
  await using origin = await startOrigin();
  await using at = await startStore();
  const { client, signal, namespace } = on;
  const names = ["a", "b", "c", "d", "e"];
  for (const [seed, name] of names.entries())
    origin.on(`/${name}.gguf`, (request, response) => {
      if (request.headers.authorization !== "Bearer good") response.writeHead(401).end();
      else sendFile(request, response, ggufBytes(10_000, seed));
    });
  const clock = steppedClock();
  const prefetcher = createPrefetcher({
    client,
    clock,
    signal,
    store: at.store,
    log: silentLog,
    maxDownloads: 8,
    onChange: () => undefined,
  });
  const rest = {
    format: "gguf",
    refreshPolicy: "IfNotPresent",
    secretRef: { name: "hub" },
  } as const;
  const orderOf = (name: string): PrefetchOrder => ({
    name,
    namespace,
    model: { ...rest, files: [], source: `${origin.url}/${name}.gguf` },
  });
  const untilAll = (state: object) =>
    vi.waitFor(() => expect(prefetcher.states()).toMatchObject(names.map(() => state)), patiently);
  prefetcher.setOrders(names.map(orderOf));
  await untilAll({ reason: "SecretMissing" });
  on.readsSince();
  for (const [data, state] of [
    [{ other: "x" }, { reason: "SecretIncomplete" }],
    [{ HF_TOKEN: "bad" }, { reason: "SourceUnauthorized" }],
    [{ HF_TOKEN: "good" }, { phase: "Ready" }],
  ] as const) {
    await on.apply("hub", data);
    clock.step(3_000);
    await untilAll(state);
    expect(on.readsSince()).toBe(1 + names.length);
  }
});

test("ten Secrets that remain wrong are read at most once every 6 s in total", async () => {
  await using on = await startClient();
  const clock = steppedClock();
  const awaitSecret = createSecretPoller({ ...on, clock, log: silentLog });
  const names = Array.from({ length: 10 }, (_, index) => `hub-${index}`);
  const changed: string[] = [];
  for (const name of names)
    awaitSecret({ namespace: on.namespace, name, version: undefined }, () => changed.push(name));
  const stepAll = async (seconds: number) => {
    for (let second = 0; second < seconds; second += 1) {
      clock.step(1_000);
      const waiting = names.length - changed.length;
      await vi.waitFor(() => expect(clock.waiting()).toBe(waiting), patiently);
    }
  };
  await stepAll(120);
  on.readsSince();
  await stepAll(600);
  const reads = on.readsSince();
  expect(reads).toBeLessThanOrEqual(600 / 6 + names.length);
  expect(reads).toBeGreaterThanOrEqual(600 / 8 - names.length);
  await on.apply("hub-3", { HF_TOKEN: "good" });
  await vi.waitFor(() => {
    clock.step(1_000);
    expect(changed).toEqual(["hub-3"]);
  }, patiently);
});
