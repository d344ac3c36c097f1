import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test, vi } from "vitest";
import type { PrefetchOrder, PrefetchState } from "../../src/api/host.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import { ggufBytes, type Origin, sha256, startOrigin } from "../../test/fixtures/origin.ts";
import { steppedClock } from "../store/fixtures/stepped-clock.ts";
import { patientLimits, silentLog, startStore } from "../store/fixtures/store.ts";
import { createPrefetcher, type PrefetcherOptions } from "./prefetcher.ts";

const SIZE = 1_000_000;
const patiently = { timeout: 60_000, interval: 10 };
/** No order here names a Secret. */
const noClient = {} as KubeClient;

function order(source: string, name = "tiny", namespace = "team"): PrefetchOrder {
  return {
    namespace,
    name,
    model: { source, files: [], format: "gguf", refreshPolicy: "IfNotPresent" },
  };
}

async function startPrefetcher(more: Partial<PrefetcherOptions> = {}, quotaBytes?: number) {
  const at = await startStore({ quotaBytes });
  const end = new AbortController();
  const seen: (readonly PrefetchState[])[] = [];
  const prefetcher = createPrefetcher({
    store: at.store,
    client: noClient,
    clock: steppedClock(),
    log: silentLog,
    signal: end.signal,
    maxDownloads: 8,
    onChange: () => seen.push(prefetcher.states()),
    ...more,
  });
  return {
    at,
    store: at.store,
    prefetcher,
    seen,
    until: (states: readonly object[]) =>
      vi.waitFor(() => expect(prefetcher.states()).toMatchObject(states), patiently),
    [Symbol.asyncDispose]: async () => {
      end.abort();
      await at[Symbol.asyncDispose]();
    },
  };
}

function serve(origin: Origin, name: string, seed: number): string {
  origin.serve(`/${name}.gguf`, ggufBytes(SIZE, seed));
  return `${origin.url}/${name}.gguf`;
}

test("an ordered model is fetched with progress in its state, and fetched again after its file was removed", async () => {
  await using origin = await startOrigin();
  const clock = steppedClock();
  await using on = await startPrefetcher({ clock });
  const source = serve(origin, "tiny", 1);
  on.prefetcher.setOrders([order(source)]);
  const ready = { model: "team/tiny", source, phase: "Ready", bytes: SIZE, totalBytes: SIZE };
  await on.until([ready]);
  expect(on.seen.map(([state]) => state?.phase)).toContain("Downloading");
  on.prefetcher.setOrders([order(source)]);
  expect(on.prefetcher.states()).toEqual([ready]);
  rmSync(join(on.at.dir, "blobs/sha256", sha256(ggufBytes(SIZE, 1))));
  const before = origin.seen.length;
  await vi.waitFor(() => expect(clock.waiting()).toBe(1), patiently);
  clock.step(60_000);
  await vi.waitFor(() => expect(origin.seen.length).toBeGreaterThan(before), patiently);
  await on.until([ready]);
});

test("a failed prefetch has the code that replicas report, is retried, and does not block other models", async () => {
  await using origin = await startOrigin();
  const clock = steppedClock();
  await using on = await startPrefetcher({ clock });
  const absent = `${origin.url}/absent.gguf`;
  const source = serve(origin, "tiny", 1);
  on.prefetcher.setOrders([order(absent, "absent"), order(source)]);
  await on.until([
    {
      model: "team/absent",
      phase: "Failed",
      reason: "SourceNotFound",
      message: expect.stringContaining("typos"),
    },
    { model: "team/tiny", phase: "Ready" },
  ]);
  origin.serve("/absent.gguf", ggufBytes(SIZE, 2));
  await vi.waitFor(() => {
    clock.step(60_000);
    expect(on.prefetcher.states()[0]).toMatchObject({ phase: "Ready" });
  }, patiently);
});

test("a removed order is aborted, and another order of the same Model starts again", async () => {
  await using origin = await startOrigin();
  await using on = await startPrefetcher();
  const { promise: left, resolve: leave } = Promise.withResolvers<void>();
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  origin.on("/slow.gguf", (_, response) => {
    response.on("close", leave);
    response.writeHead(200, { "content-length": 10_000_000 });
    response.write(ggufBytes(SIZE, 3), () => begin());
  });
  on.prefetcher.setOrders([order(`${origin.url}/slow.gguf`)]);
  await begun;
  const source = serve(origin, "tiny", 1);
  on.prefetcher.setOrders([order(source)]);
  await left;
  await on.until([{ source, phase: "Ready" }]);
  on.prefetcher.setOrders([]);
  expect(on.prefetcher.states()).toEqual([]);
  expect(await on.store.list()).toHaveLength(1);
});

test("a stored copy of another quantization does not satisfy an order", async () => {
  await using origin = await startOrigin();
  const clock = steppedClock();
  const files = { "m-Q4_K_M.gguf": ggufBytes(SIZE, 1), "m-Q8_0.gguf": ggufBytes(SIZE, 2) };
  for (const [name, content] of Object.entries(files))
    origin.serve(`/org/repo/resolve/main/${name}`, content);
  await using at = await startStore({ hfEndpoint: origin.url });
  await using on = await startPrefetcher({ clock, store: at.store });
  const orders = Object.keys(files).map((file) => {
    const { model, ...rest } = order("hf://org/repo", file);
    return { ...rest, model: { ...model, files: [file] } };
  });
  on.prefetcher.setOrders(orders);
  await on.until([{ phase: "Ready" }, { phase: "Ready" }]);
  const blob = join(at.dir, "blobs/sha256", sha256(files["m-Q8_0.gguf"]));
  rmSync(blob);
  await vi.waitFor(() => {
    clock.step(60_000);
    expect(existsSync(blob)).toBe(true);
  }, patiently);
});

test("two models that do not fit together do not replace each other", async () => {
  await using origin = await startOrigin();
  await using on = await startPrefetcher({}, 1.5 * SIZE);
  const orders = [1, 2].map((seed) => order(serve(origin, `m${seed}`, seed), `m${seed}`));
  on.store.declare({ pinned: [], prefetched: orders.map(({ model }) => model.source) });
  on.prefetcher.setOrders(orders);
  await on.until([
    { model: "team/m1", phase: "Ready" },
    { model: "team/m2", phase: "Failed", reason: "DiskFull" },
  ]);
  expect((await on.store.list()).map(({ source }) => source)).toEqual([orders[0]?.model.source]);
});

test("a stored model is Ready while another model is downloaded", async () => {
  await using origin = await startOrigin();
  await using on = await startPrefetcher();
  const source = serve(origin, "tiny", 1);
  await on.store.fetch({ source, format: "gguf" }, { signal: new AbortController().signal });
  origin.on("/slow.gguf", (_, response) => {
    response.writeHead(200, { "content-length": 10_000_000 });
    response.write(ggufBytes(SIZE, 3));
  });
  on.prefetcher.setOrders([order(`${origin.url}/slow.gguf`, "slow"), order(source)]);
  await on.until([{ phase: "Downloading" }, { source, phase: "Ready", bytes: SIZE }]);
  on.prefetcher.setOrders([]);
});

test("a source that never ends blocks only its own namespace", async () => {
  await using origin = await startOrigin();
  await using on = await startPrefetcher();
  origin.on("/slow.gguf", (_, response) => {
    response.writeHead(200, { "content-length": 10_000_000 });
    response.write(ggufBytes(SIZE, 3));
  });
  const slow = order(`${origin.url}/slow.gguf`, "slow");
  const behind = order(serve(origin, "behind", 4), "behind");
  on.prefetcher.setOrders([slow, behind, order(serve(origin, "tiny", 1), "tiny", "others")]);
  await on.until([{ phase: "Downloading" }, { phase: "Pending" }, { model: "others/tiny", phase: "Ready" }]);
  on.prefetcher.setOrders([]);
});

test("a slow source neither hides the removal of a prefetched file nor blocks downloads of replicas in its namespace", async () => {
  await using origin = await startOrigin();
  const clock = steppedClock();
  const limits = { ...patientLimits, downloads: 4 };
  await using at = await startStore({ limits });
  await using on = await startPrefetcher({ clock, store: at.store, maxDownloads: 4 });
  const tiny = order(serve(origin, "tiny", 1), "tiny", "ready");
  on.prefetcher.setOrders([tiny]);
  await on.until([{ phase: "Ready" }]);
  const trickling = ["a", "b"].map((of, number) => {
    origin.on(`/${of}.gguf`, (_, response) => {
      response.writeHead(200, { "content-length": 10_000_000 });
      response.write(ggufBytes(1_000, 10 + number));
    });
    return order(`${origin.url}/${of}.gguf`, "slow", of);
  });
  on.prefetcher.setOrders([tiny, ...trickling]);
  await on.until([{ phase: "Ready" }, { phase: "Downloading" }, { phase: "Downloading" }]);
  const list = vi.spyOn(at.store, "list");
  await vi.waitFor(() => {
    clock.step(60_000);
    expect(list).toHaveBeenCalled();
  }, patiently);
  const { signal } = new AbortController();
  await at.store.fetch({ source: serve(origin, "replica", 2), format: "gguf" }, { signal, tenant: "a" });
  on.prefetcher.setOrders([]);
});

test("orders for sources that never end use at most half of the download slots, for different namespaces", async () => {
  await using origin = await startOrigin();
  const sources = [0, 1, 2, 3, 4].map((number) => {
    origin.on(`/${number}.gguf`, (_, response) => {
      response.writeHead(200, { "content-length": 10_000_000 });
      response.write(ggufBytes(1_000, number));
    });
    return `${origin.url}/${number}.gguf`;
  });
  const running = (states: readonly PrefetchState[]) =>
    states.filter(({ phase }) => phase === "Downloading").map(({ model }) => model?.split("/")[0]);
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.constantFrom("a", "b", "c"), { minLength: 1, maxLength: 5 }),
      fc.integer({ min: 1, max: 8 }),
      async (namespaces, maxDownloads) => {
        await using on = await startPrefetcher({ maxDownloads });
        on.prefetcher.setOrders(namespaces.map((of, index) => order(sources[index] ?? "", `m${index}`, of)));
        const most = Math.min(Math.max(1, Math.floor(maxDownloads / 2)), new Set(namespaces).size);
        await vi.waitFor(() => expect(running(on.prefetcher.states())).toHaveLength(most), patiently);
        for (const states of on.seen) {
          const found = running(states);
          expect(found.length).toBeLessThanOrEqual(most);
          expect(found).toEqual([...new Set(found)]);
        }
        on.prefetcher.setOrders([]);
      },
    ),
    { numRuns: 8 },
  );
});
