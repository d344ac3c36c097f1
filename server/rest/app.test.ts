import { once } from "node:events";
import { readFileSync } from "node:fs";
import { get as getPlain, type IncomingMessage } from "node:http";
import { get } from "node:https";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { EventSourceParserStream } from "eventsource-parser/stream";
import fc from "fast-check";
import type { FastifyInstance } from "fastify";
import { afterEach, expect, test } from "vitest";
import { createDensity, type Density } from "../../fitness/density/density.ts";
import { createFitIndex } from "../../fitness/density/fits.ts";
import { A100S, aHost, aNode, catalogRecords } from "../../fitness/density/fixtures/fleet.ts";
import { machineFromHost, machineFromNode } from "../../fitness/density/place.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { quietLog } from "../../test/cluster/quiet-log.ts";
import { selfSigned } from "../../test/fixtures/self-signed.ts";
import { createApp } from "./app.ts";
import type { AuthorizeRequest } from "./authorize.ts";
import { openApiDocument } from "./openapi.ts";
import { routes } from "./routes.ts";

const fits = createFitIndex(catalogRecords());
const headers = { authorization: "Bearer good" };
const open: FastifyInstance[] = [];
afterEach(async () => {
  for (const app of open.splice(0)) await app.close();
});

const tokens: AuthorizeRequest = async (token) => {
  if (token === "good") return { at: "allowed", user: "alice" };
  if (token === "poor") return { at: "forbidden", user: "bob" };
  return token === "slow" ? { at: "unavailable", why: "no answer" } : { at: "unauthenticated" };
};

function fleet(): Density {
  const density = createDensity(fits);
  for (const host of [aHost("mac-1"), aHost("mac-2", { memoryGib: 16 })])
    density.setPlace("Host", host.metadata.name, machineFromHost(host));
  density.setPlace("Node", "gpu", machineFromNode(aNode("gpu", A100S)));
  density.setHeld(
    "team/chat-0",
    { kind: "Host", name: "mac-1" },
    { namespace: "team", service: "chat", phase: "Ready", bytes: 8 * 1024 ** 3, gpus: 0 },
  );
  return density;
}

function start({ density = fleet(), notReady = () => undefined as string | undefined } = {}) {
  const app = createApp({ density, clock: systemClock, log: quietLog, authorize: tokens, notReady });
  open.push(app);
  const get = (url: string, more: Record<string, string> = {}) =>
    app.inject({ url, headers: { ...headers, ...more } });
  const post = (body: string) =>
    app.inject({
      method: "POST",
      url: "/api/v1/density/simulate",
      body,
      headers: { ...headers, "content-type": "application/x-www-form-urlencoded" },
    });
  return { app, density, get, post };
}

const EXAMPLES = {
  "/api/v1/density/nodes/:name": "/api/v1/density/nodes/mac-1?min_fit=too_tight",
  "/api/v1/density/query": "/api/v1/density/query?model=Qwen2.5&min_fit=too_tight",
} as Record<string, string>;

test.each([
  [0, 404, /not found/],
  [17, 404, /not found/],
  [59, 404, /not found/],
  [61, 431, /maximum allowed HTTP header size/],
  [500, 431, /maximum allowed HTTP header size/],
])("a browser with %i KiB of cookies gets an answer with its cause", async (kib, status, cause) => {
  const { app } = start();
  await app.listen({ host: "127.0.0.1", port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const cookie = "c".repeat(kib << 10);
  const request = getPlain({ port, host: "127.0.0.1", path: "/nothing", headers: { ...headers, cookie } });
  const [response] = (await once(request, "response")) as [IncomingMessage];
  expect([response.statusCode, await text(response)]).toEqual([status, expect.stringMatching(cause)]);
});

test.each(routes.map((route) => [route.path, route] as const))(
  "%s responds in its documented shape",
  async (path, route) => {
    const { get, post } = start();
    const answer =
      route.method === "POST" ? await post('{"model":"Qwen2.5-7B"}') : await get(EXAMPLES[path] ?? path);
    expect(answer.statusCode, answer.body).toBe(200);
    expect(answer.headers["content-type"]).toContain("application/json");
    const body = route.response.parse(answer.json());
    expect(JSON.stringify(body)).not.toBe("{}");
  },
);

test("the committed OpenAPI document matches the routes", () => {
  const file = new URL("../../docs/reference/density-openapi.json", import.meta.url);
  expect(JSON.parse(readFileSync(file, "utf8"))).toEqual(JSON.parse(JSON.stringify(openApiDocument())));
});

test.each([
  [{}, 401, /send a token/],
  [{ authorization: "Basic abc" }, 401, /send a token/],
  [{ authorization: "Bearer bad" }, 401, /send a token/],
  [{ authorization: "Bearer poor" }, 403, /bob may not get density\/nodes of metalbridge\.dev/],
  [{ authorization: "Bearer slow" }, 503, /no answer/],
])("%j is answered with %i for every path", async (sent, status, text) => {
  const { app } = start();
  const known = await app.inject({ url: "/api/v1/density/nodes", headers: sent });
  expect([known.statusCode, known.body]).toEqual([status, expect.stringMatching(text)]);
  const unknown = await app.inject({ url: "/secret", headers: sent });
  expect(unknown.statusCode).toBe(status);
});

test("a server with a certificate accepts only TLS", async () => {
  const tls = selfSigned();
  const density = fleet();
  const app = createApp({
    density,
    clock: systemClock,
    log: quietLog,
    authorize: tokens,
    notReady: () => undefined,
    tls,
  });
  open.push(app);
  await app.listen({ port: 0, host: "127.0.0.1" });
  const { port } = app.server.address() as AddressInfo;
  const ask = (ca: Buffer | undefined) =>
    once(get({ port, host: "127.0.0.1", path: "/api/v1/density/nodes", headers, ca }), "response");
  const [response] = (await ask(tls.cert)) as [IncomingMessage];
  expect([response.statusCode, JSON.parse(await text(response)).total]).toEqual([200, 3]);
  await expect(ask(undefined)).rejects.toThrow(/self-signed/);
  await expect(fetch(`http://127.0.0.1:${port}/api/v1/density/nodes`, { headers })).rejects.toThrow();
});

test("requests are not answered before all objects have been listed", async () => {
  const { get } = start({ notReady: () => "the first list of hosts" });
  const answer = await get("/api/v1/density/nodes");
  expect(answer.statusCode).toBe(503);
  expect(answer.body).toContain("fitness cache not available");
  expect(answer.headers["retry-after"]).toBe("2");
});

test.each([
  ["/api/v1/density/query", 400, "model query parameter is required"],
  ["/api/v1/density/query?model=", 400, "model query parameter is required"],
  ["/api/v1/density/query?model=a&model=b", 400, "model query parameter is required"],
  [
    "/api/v1/density/query?model=x&min_fit=best",
    400,
    "invalid min_fit value: use perfect|good|marginal|too_tight",
  ],
  ["/api/v1/density/query?model=x&minfit=good", 400, "unknown query parameter minfit"],
  ["/api/v1/density/nodes?limit=0", 400, "invalid limit value"],
  ["/api/v1/density/nodes?limit=NaN", 400, "invalid limit value"],
  ["/api/v1/density/nodes?offset=-1", 400, "invalid offset value"],
  ["/api/v1/density/nodes?sort=random", 400, "invalid sort value: use name|score|memory"],
  ["/api/v1/density/nodes/mac-9", 404, "node not found in fitness cache"],
  ["/api/v1/density/nodes/..%2f..%2fetc", 404, "node not found in fitness cache"],
  ["/api/v1/density/nodes/__proto__", 404, "node not found in fitness cache"],
  ["/api/v1/nothing", 404, "not found"],
])("%s is answered with %i: %s", async (url, status, text) => {
  const answer = await start().get(url);
  expect([answer.statusCode, answer.body]).toEqual([status, expect.stringContaining(text)]);
  expect(answer.headers["content-type"]).toContain("text/plain");
});

test.each([
  ["{}", "model field is required"],
  ["[]", "invalid request body"],
  ["", "invalid request body"],
  ["{", "invalid request body: "],
  ['{"model":"Qwen2.5-7B","quantization":"Q9_Z"}', "invalid quantization value: use one of F32, BF16"],
  ['{"model":"Qwen2.5-7B","context":-5}', "invalid context value"],
  ['{"model":"Qwen2.5-7B","memoryGb":1e400}', "invalid memoryGb value"],
  ['{"model":"Qwen2.5-7B","color":"blue"}', "unknown field color"],
  ['{"model":"Qwen2.5"}', "model means several models: "],
])("simulating %s is refused: %s", async (body, text) => {
  const answer = await start().post(body);
  expect([answer.statusCode, answer.body]).toEqual([400, expect.stringContaining(text)]);
});

test("a body of 64 KiB is read, and a body that is one byte longer is refused before it is parsed", async () => {
  const { post } = start();
  const near = fc.integer({ min: -3, max: 3 }).map((more) => 64 * 1024 + more);
  await fc.assert(
    fc.asyncProperty(fc.oneof(near, fc.nat(300_000)), async (length) => {
      const { statusCode } = await post("x".repeat(length));
      expect(statusCode).toBe(length > 64 * 1024 ? 413 : 400);
    }),
    { numRuns: 40 },
  );
});

test("a body of a megabyte is refused, and so is a query string beyond the limit of headers", async () => {
  const { app, post } = start();
  expect((await post(JSON.stringify({ model: "x".repeat(1_000_000) }))).statusCode).toBe(413);
  const url = await app.listen({ port: 0 });
  // With a longer body, the connection may be closed before the response has been read.
  const answer = await fetch(`${url}/api/v1/density/query?model=${"x".repeat(61 * 1024)}`, { headers });
  expect(answer.status).toBe(431);
  const long = await fetch(`${url}/api/v1/density/query?model=${"x".repeat(8_000)}`, { headers });
  expect(long.status).toBe(400);
});

test("min_fit, sort and pages are applied", async () => {
  const { get } = start();
  const all = (await get("/api/v1/density/query?model=Qwen2.5&min_fit=too_tight")).json();
  const good = (await get("/api/v1/density/query?model=Qwen2.5&min_fit=good")).json();
  expect(good.total).toBeLessThan(all.total);
  const levels = new Set(good.rankedNodes.map(({ fitLevel }: { fitLevel: string }) => fitLevel));
  expect([...levels].every((level) => level === "perfect" || level === "good")).toBe(true);
  expect(all.models.filter((name: string) => /Coder/.test(name))).toEqual([]);
  const ranked = async (model: string) =>
    (await get(`/api/v1/density/query?model=${model}&min_fit=too_tight`))
      .json()
      .rankedNodes.map(({ model: fit }: { model: { best_quant: string } }) => fit.best_quant);
  expect(new Set(await ranked("Qwen2.5-7B-Instruct-Q3_K_M.gguf"))).toEqual(new Set(["Q3_K_M"]));
  expect(await ranked("Qwen2.5-7B-Instruct")).not.toContain("Q3_K_M");
  const page = (await get("/api/v1/density/query?model=Qwen2.5&limit=2&offset=1")).json();
  expect(page.nextOffset).toBe(3);
  const none = (await get("/api/v1/density/query?model=Qwen2.5-9000B")).json();
  expect(none).toMatchObject({
    rankedNodes: [],
    total: 0,
    nearest: [expect.stringContaining("Qwen2.5"), ...Array(4).fill(expect.any(String))],
  });
  const names = async (sort: string) =>
    (await get(`/api/v1/density/nodes?sort=${sort}`))
      .json()
      .nodes.map(({ nodeName }: { nodeName: string }) => nodeName);
  expect(await names("name")).toEqual(["gpu", "mac-1", "mac-2"]);
  expect(await names("memory")).toEqual(["gpu", "mac-1", "mac-2"]);
  expect((await names("score"))[2]).toBe("mac-2");
});

test("an unchanged response is not sent again, and the time of a node's last report is not a change", async () => {
  const { get, density } = start();
  const first = await get("/api/v1/density/nodes");
  const tag = String(first.headers.etag);
  density.leaseRenewed("mac-1", undefined, { wallMs: Date.now(), monotonicMs: performance.now() });
  const second = await get("/api/v1/density/nodes", { "if-none-match": `"other", ${tag}` });
  expect([second.statusCode, second.body]).toEqual([304, ""]);
  density.setPlace("Host", "mac-1", machineFromHost(aHost("mac-1", { memoryGib: 32 })));
  const third = await get("/api/v1/density/nodes", { "if-none-match": tag });
  expect(third.statusCode).toBe(200);
  expect(third.headers.etag).not.toBe(tag);
  const head = await start().app.inject({ method: "HEAD", url: "/api/v1/density/nodes", headers });
  expect([head.statusCode, head.headers.etag]).toEqual([200, tag]);
});

test("a watch sends all rows once, then changes, and ends when the server stops", async () => {
  const { app, density } = start();
  await app.listen({ port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const response = await fetch(`http://localhost:${port}/api/v1/density/nodes`, {
    headers: { ...headers, accept: "text/event-stream" },
  });
  expect(response.headers.get("content-type")).toContain("text/event-stream");
  const body = response.body ?? new ReadableStream();
  const events = body
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream())
    [Symbol.asyncIterator]();
  const next = async () => {
    const { value } = await events.next();
    return value === undefined ? undefined : [value.event, value.id];
  };
  expect([await next(), await next(), await next()]).toEqual([
    ["put", "Node/gpu"],
    ["put", "Host/mac-1"],
    ["put", "Host/mac-2"],
  ]);
  expect((await next())?.[0]).toBe("synced");
  density.setPlace(
    "Host",
    "mac-2",
    machineFromHost(aHost("mac-2", { memoryGib: 16, spec: { unschedulable: true } })),
  );
  expect(await next()).toEqual(["put", "Host/mac-2"]);
  density.setPlace("Host", "mac-1", undefined);
  expect(await next()).toEqual(["delete", "Host/mac-1"]);
  await app.close();
  expect(await next().catch(() => undefined)).toBeUndefined();
});

test("HEAD of a watchable path returns the headers of the plain response, and opens no watch", async () => {
  const { app, get } = start();
  const { headers: plainHead } = await get("/api/v1/density/nodes?watch=false");
  const url = await app.listen({ port: 0, host: "127.0.0.1" });
  for (const more of [{}, { accept: "text/event-stream" }]) {
    const sent = { ...headers, ...more };
    const head = await fetch(`${url}/api/v1/density/nodes?watch=true`, { method: "HEAD", headers: sent });
    expect([head.status, head.headers.get("etag")]).toEqual([200, plainHead.etag]);
    expect(head.headers.get("content-type")).toContain("application/json");
  }
});

test.each(["nodes", "runtimes", "installed-models", "query?model=Qwen2.5-7B&min_fit=too_tight"])(
  "a watch of %s sends a Host and a Node of the same name as two rows",
  (path) => {
    const density = fleet();
    density.setPlace("Node", "mac-1", machineFromNode(aNode("mac-1")));
    const [name = "", query = ""] = path.split("?");
    const route = routes.find((one) => one.path.endsWith(`/density/${name}`));
    const given = route?.query.parse(Object.fromEntries(new URLSearchParams(query))) ?? {};
    const now = { wallMs: 0, monotonicMs: 0 };
    const answer = route?.answer({ density, now, query: given, body: undefined, name: "" });
    const rows = answer?.status === 200 ? [...(answer.list?.rows ?? [])] : [];
    expect(rows.length).toBeGreaterThanOrEqual(4);
    expect(new Set(rows.map((row) => route?.keyOf?.(row))).size).toBe(rows.length);
  },
);

test("simulations and costs are paged too, and min_fit is applied before paging", async () => {
  const { app, get, density } = start();
  for (const host of ["mac-1", "mac-2"]) {
    const held = { namespace: "team", service: host, phase: "Ready", bytes: 4 * 1024 ** 3, gpus: 0 };
    density.setHeld(`team/${host}`, { kind: "Host", name: host }, held);
  }
  const simulate = async (query: string) => {
    const url = `/api/v1/density/simulate${query}`;
    const body = { model: "Qwen2.5-72B", quantization: "Q4_K_M" };
    return (await app.inject({ method: "POST", url, headers, body })).json();
  };
  const all = await simulate("");
  expect(all).toMatchObject({ total: 3, canFitAnywhere: true });
  const page = await simulate("?limit=1&offset=1");
  expect(page).toEqual({ ...all, rankedNodes: [all.rankedNodes[1]], nextOffset: 2 });
  const fitting = await simulate("?min_fit=marginal");
  expect(fitting.total).toBeLessThan(3);
  expect(fitting.rankedNodes).toEqual(all.rankedNodes.slice(0, fitting.total));

  const costs = (await get("/api/v1/density/cost")).json();
  expect(costs).toMatchObject({ total: 3, namespaces: [{ totalMemoryGb: 16 }] });
  const second = (await get("/api/v1/density/cost?limit=1&offset=1")).json();
  expect(second).toEqual({ ...costs, models: [costs.models[1]], nextOffset: 2 });
});
