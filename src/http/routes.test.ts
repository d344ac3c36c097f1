import { once } from "node:events";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { serveHttp } from "../../test/bed/http-server.ts";
import { createRoutes } from "./routes.ts";

test("a route gets its open segments as they were sent, and the query", async () => {
  const handle = createRoutes({
    routes: {
      "/v1/logs/*": ({ parameters, query }) => ({ status: 200, body: `${parameters} ${query.get("tail")}` }),
    },
  });
  await using server = await serveHttp(handle);
  const bodyOf = async (path: string) => (await fetch(server.url + path)).text();
  expect(await bodyOf("/v1/logs/a%2Fb?tail=3&tail=4")).toBe("a%2Fb 3");
  for (const path of ["/v1/logs/", "/v1/logs", "/v1/logs/a/b", "/v1/logs/a/"])
    expect(await bodyOf(path)).toBe("not found\n");
});

test("a method is part of the route, and a refusal names the methods that the path has", async () => {
  const ok = (body: string) => () => ({ status: 200, body });
  const routes = {
    "/state": ok("read"),
    "POST /state": ok("written"),
    "POST /reload": ok("reloaded"),
    "GET /wait": ok("waited"),
  };
  await using server = await serveHttp(createRoutes({ routes }));
  const ask = (path: string, method: string) => fetch(server.url + path, { method });
  expect(await (await ask("/state", "GET")).text()).toBe("read");
  expect(await (await ask("/state", "POST")).text()).toBe("written");
  expect((await ask("/state", "HEAD")).status).toBe(200);
  const [both, one, head] = [
    await ask("/state", "PUT"),
    await ask("/reload", "GET"),
    await ask("/wait", "HEAD"),
  ];
  expect([head.status, head.headers.get("allow")]).toEqual([405, "GET"]);
  expect([both.status, both.headers.get("allow")]).toEqual([405, "GET, HEAD, POST"]);
  expect([one.status, one.headers.get("allow")]).toEqual([405, "POST"]);
});

test("who is not admitted learns of no path, and a listener renders its own refusals", async () => {
  const handle = createRoutes({
    routes: { "/a": () => ({ status: 200, body: "a" }) },
    admit: ({ headers }) => (headers["x-may"] === "yes" ? undefined : { status: 401, body: "no" }),
    refuse: (status, message) => ({ status, body: { message } }),
  });
  await using server = await serveHttp(handle);
  const ask = (path: string, may: string) => fetch(server.url + path, { headers: { "x-may": may } });
  for (const path of ["/a", "/none"]) expect((await ask(path, "no")).status).toBe(401);
  expect(await (await ask("/none", "yes")).json()).toEqual({ message: "not found" });
});

test("a handler that fails after it has sent headers ends the connection", async () => {
  const handle = createRoutes({
    routes: {
      "/part": ({ response }) => {
        response.writeHead(200).write("part");
        throw new Error("out of order");
      },
    },
  });
  await using server = await serveHttp(handle);
  const socket = connect(server.port, "127.0.0.1");
  socket.on("error", () => undefined).resume();
  socket.write("GET /part HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await once(socket, "close");
});
