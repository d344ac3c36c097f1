import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../src/kube/system-clock.ts";
import { quietLog } from "../../test/cluster/quiet-log.ts";
import { createTelemetryExporter } from "./exporter.ts";
import { readTraceParent, spanOf, type TracedRequest } from "./span.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT = "00f067aa0ba902b7";
const ended: TracedRequest = {
  caller: "ada",
  model: "team-a/chat",
  host: "mac-1",
  tokens: { tokensIn: 12, tokensOut: 34, cached: 0, isEstimated: false },
  traceParent: `00-${TRACE}-${PARENT}-01`,
  finished: {
    ...{ requestId: "r", status: 200, method: "POST", path: "/v1/chat/completions", attempts: 1 },
    ...{ bytesReceived: 10, bytesSent: 20, startedMs: 1_795_764_249_730, durationMs: 1_500 },
  },
};

test("a request is a span of the client's trace, with the attributes for generative AI and no prompt", () => {
  expect(spanOf(ended, () => "b7ad6b7169203331")).toMatchObject({
    ...{ traceId: TRACE, parentSpanId: PARENT, spanId: "b7ad6b7169203331", name: "chat chat", kind: 3 },
    startTimeUnixNano: "1795764249730000000",
    endTimeUnixNano: "1795764251230000000",
    attributes: expect.arrayContaining([
      { key: "gen_ai.operation.name", value: { stringValue: "chat" } },
      { key: "gen_ai.request.model", value: { stringValue: "chat" } },
      { key: "gen_ai.usage.input_tokens", value: { intValue: "12" } },
      { key: "gen_ai.usage.output_tokens", value: { intValue: "34" } },
    ]),
    status: {},
  });
});

test("without a trace of the client a new one begins, an unsampled one has no span, and an invalid one is ignored", () => {
  const random = (bytes: number) => "ab".repeat(bytes);
  expect(spanOf({ ...ended, traceParent: undefined }, random)).toMatchObject({
    ...{ traceId: "ab".repeat(16), parentSpanId: undefined },
  });
  expect(spanOf({ ...ended, traceParent: `00-${TRACE}-${PARENT}-00` }, random)).toBeUndefined();
  for (const text of ["", "x", `00-${"0".repeat(32)}-${PARENT}-01`, `00-${TRACE}-${PARENT}-01-more`])
    expect(readTraceParent(text)).toBeUndefined();
});

test("a failed request has the status of an error", () => {
  const finished = { ...ended.finished, status: 503, flags: "UH" };
  expect(spanOf({ ...ended, finished }, () => "1")).toMatchObject({
    status: { code: 2 },
    attributes: expect.arrayContaining([{ key: "error.type", value: { stringValue: "UH" } }]),
  });
});

type Point = { attributes: { key: string; value: { stringValue: string } }[]; count: string };
interface Body {
  resourceSpans?: { scopeSpans: { spans: object[] }[] }[];
  resourceMetrics?: { scopeMetrics: { metrics: { name: string; histogram: { dataPoints: Point[] } }[] }[] }[];
}

/** A collector, and an exporter that sends to it. */
async function startCollector() {
  const bodies: { path: string | undefined; body: Body }[] = [];
  const scripted = { status: 200 };
  const server = createServer((request, response) => {
    let text = "";
    request.setEncoding("utf8").on("data", (part: string) => (text += part));
    request.on("end", () => {
      bodies.push({ path: request.url, body: JSON.parse(text) });
      response.writeHead(scripted.status).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const ending = new AbortController();
  onTestFinished(() => {
    ending.abort();
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const ports = { gateway: "g1", clock: systemClock, log: quietLog, signal: ending.signal };
  const exporter = createTelemetryExporter({ ...ports, endpoint: `http://127.0.0.1:${port}/` });
  const sent = (path: string) => bodies.filter((one) => one.path === path).map(({ body }) => body);
  return { exporter, scripted, sent };
}

test("a collector gets spans in batches, and one that fails only loses them", async () => {
  const { exporter, scripted, sent } = await startCollector();
  const batches = () =>
    sent("/v1/traces").map(({ resourceSpans }) => resourceSpans?.[0]?.scopeSpans[0]?.spans.length);
  exporter.add(ended);
  exporter.add(ended);
  await exporter.flush();
  await exporter.flush();
  scripted.status = 500;
  for (let index = 0; index < 5_000; index += 1) exporter.add(ended);
  await exporter.flush();
  await exporter.flush();
  expect(batches()).toEqual([2, 4_096]);
});

test("a collector gets histograms since the start, of requests, first bytes and tokens that are not estimated", async () => {
  const { exporter, scripted, sent } = await startCollector();
  await exporter.flush();
  expect(sent("/v1/metrics")).toEqual([]);
  scripted.status = 500;
  exporter.add({ ...ended, finished: { ...ended.finished, firstByteMs: 300 } });
  await exporter.flush();
  scripted.status = 200;
  exporter.add({ ...ended, tokens: { ...ended.tokens, isEstimated: true } });
  exporter.add({ ...ended, finished: { ...ended.finished, status: 503, firstByteMs: 1 } });
  await exporter.flush();
  const last = sent("/v1/metrics").at(-1)?.resourceMetrics?.[0]?.scopeMetrics[0]?.metrics ?? [];
  const points = (name: string) => last.find((one) => one.name === name)?.histogram.dataPoints ?? [];
  const attribute = (point: Point | undefined, key: string) =>
    point?.attributes.find((one) => one.key === key)?.value.stringValue;
  const [whole, failed] = points("gen_ai.server.request.duration");
  expect([whole, failed].map((point) => [attribute(point, "error.type"), point?.count])).toEqual([
    [undefined, "2"],
    ["503", "1"],
  ]);
  expect(last.find(({ name }) => name === "gen_ai.server.request.duration")).toMatchObject({
    unit: "s",
    histogram: {
      aggregationTemporality: 2,
      dataPoints: [
        {
          sum: 3,
          // 1.5 s is in the bucket up to 2.56 s, the ninth one.
          bucketCounts: [..."000000002000000"],
          explicitBounds: expect.toSatisfy((bounds: number[]) => bounds.length === 14 && bounds[8] === 2.56),
          startTimeUnixNano: expect.stringMatching(/^\d{19}$/),
          timeUnixNano: expect.stringMatching(/^\d{19}$/),
        },
        {},
      ],
    },
  });
  expect(attribute(whole, "gen_ai.operation.name")).toBe("chat");
  expect(attribute(whole, "gen_ai.request.model")).toBe("chat");
  expect(points("gen_ai.server.time_to_first_token")).toMatchObject([{ count: "1", sum: 0.3 }]);
  expect(points("gen_ai.client.token.usage").map((point) => attribute(point, "gen_ai.token.type"))).toEqual([
    "input",
    "output",
  ]);
  expect(points("gen_ai.client.token.usage")).toMatchObject([
    { count: "2", sum: 24 },
    { count: "2", sum: 68 },
  ]);
  expect(JSON.stringify(last)).not.toContain("ada");
});
