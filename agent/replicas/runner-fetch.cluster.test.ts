/** Weights over the network, with a real server that fails the way servers do. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { writeTinyGguf, writeTinyLora } from "../../test/fixtures/tiny-gguf.ts";
import { withBench } from "../../test/replicas/with-bench.ts";
import { silentLog, testClock } from "../store/fixtures/store.ts";
import { openStore } from "../store/store.ts";

const it = findLlamaServer() === undefined ? test.skip : test;
const PATIENT = { timeout: 60_000 };
const quick = { fetchRetryFirstMs: 200 };

async function startServer(listener: RequestListener): Promise<{ readonly url: string } & AsyncDisposable> {
  const server = createServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" ? address?.port : 0;
  return {
    url: `http://127.0.0.1:${port}/tiny.gguf`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

it(
  "waits while the source is not there, says so, and serves once it is",
  withBench(async (bench) => {
    const weights = readFileSync(bench.modelPath);
    let isThere = false;
    await using server = await startServer((_request, response) => {
      if (!isThere) response.writeHead(404).end();
      else response.writeHead(200, { "content-length": weights.length }).end(weights);
    });
    const { runner } = await bench.startAgent({ timings: quick });
    await bench.createReplica("chat-0-w", (spec) =>
      Object.assign(spec.template.model, { source: server.url }),
    );
    const waiting = await bench.untilPhase("chat-0-w", "Waiting");
    expect(waiting.status?.reason).toBe("SourceNotFound");
    isThere = true;
    const ready = await bench.untilPhase("chat-0-w", "Ready");
    const sha256 = createHash("sha256").update(weights).digest("hex");
    expect(ready.status?.model).toMatchObject({ sizeBytes: weights.length, sha256, gguf: { layerCount: 2 } });
    expect(ready.status?.progress).toBeUndefined();
    const loads = [...runner.counts().loads.samples()].map(({ labels, histogram }) => {
      expect(labels).toMatchObject({ model: server.url, backend: "llamacpp" });
      return [labels.phase, histogram.counts.reduce((all, one) => all + one, 0), histogram.sum] as const;
    });
    expect(loads).toEqual([
      ["pull", 1, expect.any(Number)],
      ["start", 1, expect.any(Number)],
    ]);
    // The retries count too.
    expect(loads[0]?.[2]).toBeGreaterThan(quick.fetchRetryFirstMs / 2_000);
  }),
);

it(
  "fetches the draft model and the LoRA adapters too, claims their memory and passes them to the engine",
  withBench(async (bench) => {
    const files = new Map<string, Buffer>([["/tiny.gguf", readFileSync(bench.modelPath)]]);
    const [draftPath, loraPath] = [join(bench.place.root, "draft.gguf"), join(bench.place.root, "lora.gguf")];
    await writeTinyGguf(draftPath, { layers: 1 });
    await writeTinyLora(loraPath);
    files.set("/draft.gguf", readFileSync(draftPath)).set("/lora.gguf", readFileSync(loraPath));
    await using server = await startServer(({ url = "" }, response) => {
      const content = files.get(url);
      response.writeHead(content === undefined ? 404 : 200, { "content-length": content?.length ?? 0 });
      response.end(content);
    });
    const weights = (name: string) => ({
      source: server.url.replace("tiny.gguf", name),
      files: [],
      format: "gguf",
      refreshPolicy: "IfNotPresent",
    });
    const further = {
      draft: weights("draft.gguf"),
      loraAdapters: [{ model: weights("lora.gguf"), scale: 0.5 }],
    };
    await bench.startAgent({ timings: quick });
    await bench.createReplica("chat-0-m", ({ template }) => {
      Object.assign(template.model, { source: server.url });
    });
    const plain = await bench.untilPhase("chat-0-m", "Ready");
    await bench.createReplica("chat-0-l", ({ template }) => {
      Object.assign(template.model, { source: server.url });
      Object.assign(template.engine, { speculativeDecoding: { type: "draft" } });
      Object.assign(template, further);
    });
    const ready = await bench.untilPhase("chat-0-l", "Ready");
    const claimOf = ({ status }: typeof ready) => status?.memory?.claimBytes ?? 0;
    expect(claimOf(ready)).toBeGreaterThan(claimOf(plain) + (files.get("/lora.gguf")?.length ?? 0));
    const port = (await bench.slice("chat-0-l"))?.ports?.[0]?.port;
    const ask = async (path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).json();
    expect(await ask("/lora-adapters")).toMatchObject([{ scale: 0.5 }]);
    expect(await ask("/slots")).toMatchObject([{ speculative: true }]);
  }),
);

it(
  "shows progress, and gives up a download whose replica is deleted",
  withBench(async (bench) => {
    const closed = vi.fn();
    await using server = await startServer((_request, response) => {
      response.writeHead(200, { "content-length": 1_000_000 });
      response.write(readFileSync(bench.modelPath));
      response.on("close", closed);
    });
    const agent = await bench.startAgent({ timings: quick });
    await bench.createReplica("chat-0-y", (spec) =>
      Object.assign(spec.template.model, { source: server.url }),
    );
    await bench.untilReplica("chat-0-y", (found) =>
      expect(found?.status).toMatchObject({ phase: "Fetching", progress: { totalBytes: 1_000_000 } }),
    );
    await bench.deleteReplica("chat-0-y");
    await bench.untilGone("chat-0-y");
    await vi.waitFor(() => expect(closed).toHaveBeenCalled(), PATIENT);
    await vi.waitFor(() => expect(agent.runner.snapshot()).toEqual([]), PATIENT);
  }),
);

it(
  "holds the weights of a replica that only waits, also after a restart beside a source that does not answer",
  withBench(async (bench) => {
    const weights = readFileSync(bench.modelPath);
    let isDeaf = false;
    const server = await startServer((_request, response) => {
      if (!isDeaf) response.writeHead(200, { "content-length": weights.length, etag: '"1"' }).end(weights);
    });
    const first = await bench.startAgent({ timings: quick, memoryBudget: () => 1 });
    await bench.createReplica("chat-0-v", (spec) =>
      Object.assign(spec.template.model, { source: server.url, refreshPolicy: "OnChange" }),
    );
    const waiting = await bench.untilPhase("chat-0-v", "Waiting");
    expect(waiting.status?.reason).toBe("InsufficientMemory");
    await first.end();
    isDeaf = true;
    const store = await openStore({
      dir: join(bench.place.root, "store"),
      clock: testClock,
      log: silentLog,
      allowedRoots: [],
      hfEndpoint: "http://127.0.0.1:9",
      reserveBytes: 0,
      quotaBytes: 1,
      allowLoopback: true,
      limits: { attempts: 1, firstBackoffMs: 10 },
    });
    const second = await bench.startAgent({ store, timings: quick });
    await vi.waitFor(() => expect(second.runner.hasInspectedAll()).toBe(true), PATIENT);
    expect(await store.collect()).toEqual([]);
    await server[Symbol.asyncDispose]();
    await bench.untilPhase("chat-0-v", "Ready");
  }),
);
