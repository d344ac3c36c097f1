import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:net";
import { expect, test } from "vitest";
import { healthRoutes, type ListenOptions, listen, listenOn } from "./listener.ts";

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
