import { once } from "node:events";
import { type ClientRequest, type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { readBenchmarks } from "../../src/capacity/benchmark/table.ts";
import { DEFAULT_SCORE_WEIGHTS } from "../../src/capacity/score.ts";
import {
  classOf,
  measuredModel,
  measuredService,
  measuredTable,
  type NodeClassName,
  servicePod,
} from "../../test/bed/gpu-classes.ts";
import { until } from "../../test/bed/until.ts";
import { keepLines, type LogLine } from "../../test/fixtures/log-lines.ts";
import { parseServerConfig } from "../config.ts";
import { listenApp } from "../http/app.ts";
import { createExtenderApp, type ExtenderAppOptions } from "./app.ts";
import { needOf } from "./decide.ts";
import { createExtenderCounters } from "./metrics.ts";

const table = readBenchmarks(measuredTable());

async function serve(clock: ExtenderAppOptions["clock"] = { monotonicMs: () => 0 }, maxHeldBytes?: number) {
  const lines: LogLine[] = [];
  const counters = createExtenderCounters();
  const known: readonly string[] = ["a100", "l4", "slice"] satisfies NodeClassName[];
  const sizes: Readonly<Record<string, number>> = { slice: 4.75 * 1024 ** 3 };
  const app = createExtenderApp({
    cluster: {
      factsOf: (name) =>
        known.includes(name)
          ? {
              devices: { gpu: { vendor: "NVIDIA", bytesEach: sizes[name], isSliced: name === "slice" } },
              deviceClass: classOf(name as NodeClassName),
              utilization: undefined,
              cost: undefined,
            }
          : undefined,
      needOf: (pod) =>
        pod.metadata.labels?.["metalbridge.dev/service"] === "chat"
          ? needOf(pod, measuredService("default"), measuredModel("default"), table)
          : undefined,
    },
    weights: DEFAULT_SCORE_WEIGHTS,
    counters,
    clock,
    log: keepLines(lines),
    maxHeldBytes,
  });
  const port = await listenApp(app, { address: "127.0.0.1", port: 0 });
  onTestFinished(() => void app.server.closeAllConnections());
  onTestFinished(() => void app.close());
  const post = async (verb: string, body: string | object, init: RequestInit = {}) => {
    const sent = typeof body === "string" ? body : JSON.stringify(body);
    const response = await fetch(`http://127.0.0.1:${port}/${verb}`, { method: "POST", body: sent, ...init });
    return { status: response.status, text: await response.text() };
  };
  return { port, post, lines, counters };
}

const NODE_NAMES = ["a100", "l4", "slice", "stranger"];
const POD = servicePod("chat-1", "default");

test("a pod of a service is filtered and scored, unknown nodes pass, and each decision is logged once", async () => {
  const { post, lines, counters } = await serve();
  const filtered = JSON.parse((await post("filter", { Pod: POD, NodeNames: NODE_NAMES })).text);
  expect(filtered).toEqual({
    NodeNames: ["a100", "l4", "stranger"],
    FailedNodes: {},
    FailedAndUnresolvableNodes: { slice: "MIG slice has 4.8 GiB of memory, the model needs 13 GiB" },
    Error: "",
  });
  await post("filter", { Pod: POD, NodeNames: NODE_NAMES });
  const scored = JSON.parse((await post("prioritize", { Pod: POD, NodeNames: filtered.NodeNames })).text);
  expect(scored).toEqual([
    { Host: "a100", Score: 10 },
    { Host: "l4", Score: 5 },
    { Host: "stranger", Score: 7 },
  ]);
  expect(lines.map(({ message }) => message)).toEqual(["nodes rejected", "nodes scored"]);
  expect([...counters.candidates.samples()].map(({ labels, value }) => [labels?.result, value])).toEqual([
    ["unknown", 2],
    ["rejected", 2],
    ["passed", 4],
  ]);
});

test("pods of others pass on every node with equal scores", async () => {
  const { post, lines } = await serve();
  const other = { ...POD, metadata: { name: "web", namespace: "default" } };
  const filtered = await post("filter", { Pod: other, NodeNames: NODE_NAMES });
  expect(JSON.parse(filtered.text)).toMatchObject({ NodeNames: NODE_NAMES, FailedAndUnresolvableNodes: {} });
  const scored = JSON.parse((await post("prioritize", { Pod: other, NodeNames: NODE_NAMES })).text);
  expect(new Set(scored.map(({ Score }: { Score: number }) => Score)).size).toBe(1);
  expect(lines).toEqual([]);
});

test("without nodes, filter says what to configure, and prioritize has no scores", async () => {
  const { post } = await serve();
  expect(JSON.parse((await post("filter", { Pod: POD })).text).Error).toContain("nodeCacheCapable: true");
  expect((await post("prioritize", { Pod: POD })).text).toBe("[]");
});

test("a request that took longer than its budget is answered as for a pod of others", async () => {
  let nowMs = 0;
  const { post } = await serve({
    monotonicMs: () => {
      nowMs += 1_001;
      return nowMs;
    },
  });
  const filtered = await post("filter", { Pod: POD, NodeNames: NODE_NAMES });
  expect(JSON.parse(filtered.text)).toMatchObject({ NodeNames: NODE_NAMES });
});

test.each<[string, number, string, string, RequestInit]>([
  ["malformed JSON", 400, "filter", '{"Pod":', {}],
  ["another path", 404, "bind", "{}", {}],
  ["another method", 405, "filter", "", { method: "PUT" }],
  ["no length", 400, "filter", "", { body: new Blob(["{}"]).stream(), duplex: "half" } as RequestInit],
])("%s gets status %i", async (_, status, verb, body, init) => {
  const { post } = await serve();
  const answer = await post(verb, body, init);
  expect(answer.status).toBe(status);
  if (status === 400) expect(answer.text).toMatch(/^ExtenderRequestInvalid: /);
});

test("a body above the limit is refused by its length, before it is sent", async () => {
  const { port } = await serve();
  const headers = { "content-length": 128 * 1024 ** 2 + 1 };
  const call = request({ host: "127.0.0.1", port, path: "/filter", method: "POST", headers });
  call.flushHeaders();
  const [response] = (await once(call, "response")) as [IncomingMessage];
  expect(response.statusCode).toBe(413);
  expect(await text(response)).toContain("nodeCacheCapable: true");
  call.destroy();
});

test("it closes although a client has connected and asked nothing", async () => {
  const cluster = { factsOf: () => undefined, needOf: () => undefined };
  const app = createExtenderApp({
    cluster,
    weights: DEFAULT_SCORE_WEIGHTS,
    counters: createExtenderCounters(),
    clock: { monotonicMs: () => 0 },
    log: keepLines([]),
  });
  const port = await listenApp(app, { address: "127.0.0.1", port: 0 });
  const silent = connect(port, "127.0.0.1");
  silent.write("POST /filter HTTP/1.1\r\n");
  await once(silent, "connect");
  const left = once(silent.resume(), "close");
  await Promise.all([app.close(), left]);
});

test("plain HTTP is refused on addresses that other machines reach", () => {
  const given = { kubeconfig: "/kubeconfig", extenderPort: 8443 };
  expect(parseServerConfig({ ...given, address: "127.0.0.1" })).toMatchObject(given);
  expect(() => parseServerConfig({ ...given, address: "0.0.0.0" })).toThrow(/extenderTlsCert/);
});

/** Sends the headers of a request with so many bytes, and the first of them. */
function begin(port: number, length: number, sent: string): ClientRequest {
  const headers = { "content-length": length };
  const call = request({ host: "127.0.0.1", port, path: "/filter", method: "POST", headers });
  call.on("error", () => {});
  call.flushHeaders();
  call.write(sent);
  return call;
}

test("bodies in flight have a limit together, and a client that hangs up frees its share without an error", async () => {
  const { port, post, lines, counters } = await serve(undefined, 10_000);
  const body = { Pod: POD, NodeNames: NODE_NAMES };
  const first = begin(port, 10_000, "x".repeat(9_999));
  await until(async () => {
    const refused = await post("filter", body);
    expect(refused).toMatchObject({ status: 503, text: expect.stringMatching(/^ExtenderRequestTooLarge: /) });
  });
  first.destroy();
  await until(async () => expect(await post("filter", body)).toMatchObject({ status: 200 }));
  expect([...counters.requests.samples()].map(({ labels }) => labels?.code)).toContain("499");
  expect(lines.map(({ message }) => message)).toEqual(["nodes rejected"]);
});

test("bodies that are only announced keep no scheduler out, and end when no scheduler waits any more", async () => {
  const { port, post, counters } = await serve();
  const calls = [0, 1, 2].map(() => begin(port, 100 * 1024 ** 2, "{"));
  const ended = Promise.all(calls.map((call) => new Promise((resolve) => call.once("close", resolve))));
  expect(await post("filter", { Pod: POD, NodeNames: NODE_NAMES })).toMatchObject({ status: 200 });
  await ended;
  await until(() =>
    expect([...counters.requests.samples()]).toContainEqual({
      labels: { verb: "filter", code: "499" },
      value: 3,
    }),
  );
});
