import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { systemClock } from "../../src/kube/system-clock.ts";
import { quietLog } from "../../test/cluster/quiet-log.ts";
import { createSpanExporter } from "./exporter.ts";
import { readTraceParent, spanOf, type TracedRequest } from "./span.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT = "00f067aa0ba902b7";
const ended: TracedRequest = {
  caller: "ada",
  model: "team-a/chat",
  place: "mac-1",
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

test("a collector gets spans in batches, and one that fails only loses them", async () => {
  const bodies: { resourceSpans: { scopeSpans: { spans: object[] }[] }[] }[] = [];
  let status = 200;
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (text: string) => (body += text));
    request.on("end", () => {
      expect(request.url).toBe("/v1/traces");
      bodies.push(JSON.parse(body));
      response.writeHead(status).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const ending = new AbortController();
  try {
    const { port } = server.address() as AddressInfo;
    const ports = { gateway: "g1", clock: systemClock, log: quietLog, signal: ending.signal };
    const exporter = createSpanExporter({ ...ports, endpoint: `http://127.0.0.1:${port}/` });
    exporter.add(ended);
    exporter.add(ended);
    await exporter.flush();
    expect(bodies[0]?.resourceSpans[0]?.scopeSpans[0]?.spans).toHaveLength(2);
    await exporter.flush();
    status = 500;
    for (let index = 0; index < 5_000; index += 1) exporter.add(ended);
    await exporter.flush();
    expect(bodies[1]?.resourceSpans[0]?.scopeSpans[0]?.spans).toHaveLength(4_096);
    await exporter.flush();
    expect(bodies).toHaveLength(2);
  } finally {
    ending.abort();
    server.closeAllConnections();
    server.close();
  }
});
