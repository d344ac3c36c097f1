import { once } from "node:events";
import { createServer as createHttpServer, get } from "node:http";
import { type AddressInfo, connect, createServer } from "node:net";
import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { keepLines, type LogLine } from "../../test/fixtures/log-lines.ts";
import { systemClock } from "../kube/system-clock.ts";
import { healthRoutes, type ListenOptions, listen, listenOn, retryListen } from "./listener.ts";

async function serve(routes: ListenOptions["routes"]) {
  const end = new AbortController();
  const port = await listen({ address: "127.0.0.1", port: 0, routes, signal: end.signal });
  return { port, at: `http://127.0.0.1:${port}`, [Symbol.asyncDispose]: async () => end.abort() };
}

test("a taken port is a PortTaken that names the port and how to find who has it", async () => {
  await using first = await serve({});
  const { port } = first;
  const signal = new AbortController().signal;
  await expect(listen({ address: "127.0.0.1", port, routes: {}, signal })).rejects.toMatchObject({
    code: "PortTaken",
    message: `cannot listen on 127.0.0.1:${port}: the port is in use`,
    remedy: { command: `lsof -i :${port}` },
  });
});

test("an address that this machine does not have is a ListenFailed", async () => {
  const signal = new AbortController().signal;
  await expect(listen({ address: "192.0.2.1", port: 0, routes: {}, signal })).rejects.toMatchObject({
    code: "ListenFailed",
    message: expect.stringContaining("192.0.2.1:0"),
  });
});

test("a connection that cannot be accepted does not end the process", async () => {
  const end = new AbortController();
  const server = createHttpServer();
  await listenOn(server, { address: "127.0.0.1", port: 0, signal: end.signal });
  // As Node says it where too many files are open; without a listener it throws.
  expect(() => server.emit("error", new Error("accept EMFILE"))).not.toThrow();
  end.abort();
});

test("a server whose port is taken listens once the port is free", async () => {
  const end = new AbortController();
  onTestFinished(() => end.abort());
  const squatter = createServer().listen(0, "127.0.0.1");
  await once(squatter, "listening");
  const { port } = squatter.address() as AddressInfo;
  const server = createHttpServer();
  const place = { address: "127.0.0.1", port, signal: end.signal };
  const failures: string[] = [];
  const lines: LogLine[] = [];
  const bound = await new Promise<number>((onListening) => {
    retryListen(() => listenOn(server, place), place, {
      clock: systemClock,
      log: keepLines(lines),
      what: "the test",
      retryMs: 1,
      onListening,
      onFailed: ({ message }) => {
        failures.push(message);
        if (failures.length === 12) squatter.close();
      },
    });
  });
  expect(bound).toBe(port);
  expect(new Set(failures)).toEqual(new Set([`cannot listen on 127.0.0.1:${port}: the port is in use`]));
  expect(lines.map(({ message }) => message)).toEqual([
    "cannot listen for the test yet; retrying",
    "listening for the test",
  ]);
  // One that is left behind by each attempt would be a leak.
  expect(server.listenerCount("listening")).toBe(createHttpServer().listenerCount("listening"));
});

test("readiness lists every reason, and health is a matter of answering", async () => {
  const reasons = ["ApiUnreachable: no route", "waiting for leadership"];
  const metrics = () => ({ status: 200, body: "up 1\n", type: "text/plain; version=0.0.4" });
  await using server = await serve(healthRoutes({ notReady: () => reasons, metrics }));
  const ready = await fetch(`${server.at}/readyz?verbose`);
  expect([ready.status, await ready.text()]).toEqual([
    503,
    "ApiUnreachable: no route\nwaiting for leadership\n",
  ]);
  reasons.length = 0;
  expect((await fetch(`${server.at}/readyz`)).status).toBe(200);
  expect(await (await fetch(`${server.at}/healthz`)).text()).toBe("ok\n");
  const scraped = await fetch(`${server.at}/metrics`);
  expect(scraped.headers.get("content-type")).toBe("text/plain; version=0.0.4");
});

test("an object is answered as JSON", async () => {
  await using server = await serve({ "/hosts": () => ({ status: 200, body: { items: ["mini-1"] } }) });
  const response = await fetch(`${server.at}/hosts`);
  expect(response.headers.get("content-type")).toBe("application/json");
  expect(await response.json()).toEqual({ items: ["mini-1"] });
});

test("a route that throws answers 500, an unknown path 404 and a write 405, and the listener lives on", async () => {
  await using server = await serve({
    "/bad": () => {
      throw new Error("out of order");
    },
  });
  const bad = await fetch(`${server.at}/bad`);
  expect([bad.status, await bad.text()]).toEqual([500, "Error: out of order\n"]);
  for (const path of ["/", "/toString", "/__proto__"])
    expect((await fetch(server.at + path)).status).toBe(404);
  expect((await fetch(`${server.at}/bad`, { method: "POST" })).status).toBe(405);
  expect((await fetch(`${server.at}/bad`)).status).toBe(500);
});

test("an aborted signal gives the port back", async () => {
  const { port, ...server } = await serve({});
  await server[Symbol.asyncDispose]();
  const next = createServer();
  await new Promise<void>((resolve, reject) => next.once("error", reject).listen(port, "127.0.0.1", resolve));
  next.close();
});

/** The status of GET /metrics with these headers. */
async function statusWith(port: number, headers: Record<string, string>): Promise<number | undefined> {
  const request = get({ host: "127.0.0.1", port, path: "/metrics", headers });
  const [response] = await once(request, "response");
  response.resume();
  return response.statusCode;
}

const anyHost = fc.oneof(
  fc.domain(),
  fc.ipV4(),
  fc.ipV6().map((address) => `[${address}]`),
  fc.constantFrom("localhost.example", "127.0.0.1.nip.example", "127.0.0.1@page.example", "1.127.0.0.1"),
);

test("on loopback a request is answered only if its Host is this machine, so no web page that a name leads here", async () => {
  const metrics = () => ({ status: 200, body: "up 1\n" });
  await using server = await serve({ "/metrics": metrics });
  const { port } = server;
  for (const host of ["localhost", "127.0.0.1", "127.1.2.3", "[::1]", "LOCALHOST"])
    for (const suffix of ["", `:${port}`, ":9465"])
      expect([host, suffix, await statusWith(port, { host: host + suffix })]).toEqual([host, suffix, 200]);
  await fc.assert(
    fc.asyncProperty(anyHost, fc.constantFrom("", `:${port}`), async (host, suffix) => {
      const isOwn = /^(127\.\d+\.\d+\.\d+|\[::1\])$/.test(host);
      expect(await statusWith(port, { host: host + suffix })).toBe(isOwn ? 200 : 403);
    }),
  );
  expect(await statusWith(port, { origin: "https://page.example" })).toBe(403);
  expect(await statusWith(port, { origin: "http://localhost:3000" })).toBe(200);
});

test("on other addresses, where pods are probed and scraped, any Host is answered", async () => {
  const end = new AbortController();
  onTestFinished(() => end.abort());
  const routes = { "/metrics": () => ({ status: 200, body: "up 1\n" }) };
  const port = await listen({ address: "0.0.0.0", port: 0, routes, signal: end.signal });
  expect(await statusWith(port, { host: "metalbridge-controller.metalbridge-system:9464" })).toBe(200);
});

test("a client that sends many requests before it reads an answer is cut off, and costs two answers", async () => {
  let answered = 0;
  const page = () => {
    answered += 1;
    return { status: 200, body: "x".repeat(100_000) };
  };
  await using on = await serve({ "/metrics": page });
  const socket = connect(on.port, "127.0.0.1");
  socket.on("error", () => {});
  socket.write("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(500));
  await once(socket, "close");
  expect(answered).toBe(2);
  expect(await (await fetch(`${on.at}/metrics`)).text()).toHaveLength(100_000);
});
