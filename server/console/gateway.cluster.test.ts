/** The console's way to the gateway, with a server that stands in for it. */
import { once } from "node:events";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { createCertificate } from "../../src/crypto/certificate.ts";
import { serveHttp } from "../../test/bed/http-server.ts";
import { consoleHeaders, openConsoleRig, signIn } from "./testing/console-rig.ts";

/** What an engine must not say in the name of the console. */
const FOREIGN = [
  ...["set-cookie", "location", "refresh", "www-authenticate", "clear-site-data", "link"],
  ...["service-worker-allowed", "strict-transport-security", "access-control-allow-origin"],
];

test("the gateway's answer streams through, with the reader's key, and its end is heard", async () => {
  await using rig = await openConsoleRig();
  const seen: IncomingMessage[] = [];
  const closed = Promise.withResolvers<void>();
  await using gateway = await serveHttp(async (request, response) => {
    seen.push(request);
    const body = await text(request);
    for (const name of FOREIGN) response.setHeader(name, "stranger=1");
    response.writeHead(200, { "content-type": "text/event-stream", "x-metalbridge-host": "mac-1" });
    response.write(`data: ${body}\n\n`);
    response.once("close", () => closed.resolve());
  });
  const url = gateway.url;
  const app = rig.start({
    gateway: { url, publicUrl: "https://models.example", takesKubernetesTokens: true },
  });
  const token = await rig.tokenOf("talker");
  const { answer, signed, send } = await signIn(app, { token });
  expect(answer.json()).toMatchObject({ hasGateway: true, gatewayUrl: "https://models.example" });
  const key = await send("POST", "/console/gateway-key", { key: `mbk_${"k".repeat(43)}` });
  const withKey = { ...consoleHeaders, cookie: `${key.cookies[0]?.name}=${key.cookies[0]?.value}` };
  await app.listen({ host: "127.0.0.1", port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const post = async (each: object, below: string) => {
    const request = requestHttp({
      port,
      host: "127.0.0.1",
      method: "POST",
      path: `/console/gateway/${below}`,
      headers: { ...each, host: "localhost:80", "content-type": "application/json" },
    });
    request.end('{"stream":true}');
    const [response] = (await once(request, "response")) as [IncomingMessage];
    return response;
  };
  for (const each of [signed, withKey]) {
    const response = await post(each, "v1/chat/completions?x=1");
    const [first] = (await once(response, "data")) as [Buffer];
    expect(first.toString()).toBe('data: {"stream":true}\n\n');
    for (const name of FOREIGN) expect(response.headers[name], name).toBeUndefined();
    expect(response.headers["content-security-policy"]).toBe("sandbox");
    expect(response.headers["x-metalbridge-host"]).toBe("mac-1");
    response.destroy();
  }
  const shifted = requestHttp({ port, host: "127.0.0.1", path: "/console/gatewa%79/v1/models" });
  for (const [name, value] of Object.entries({ ...signed, host: "localhost:80" }))
    shifted.setHeader(name, value);
  shifted.end();
  expect(((await once(shifted, "response")) as [IncomingMessage])[0].statusCode).toBe(400);
  for (const below of ["v1/../admin", "%2e%2e/admin", "v1/x%2f..%2fadmin"])
    expect((await post(signed, below)).statusCode, below).toBe(400);
  await closed.promise;
  expect(seen.map((one) => one.headers.authorization)).toEqual([
    `Bearer ${token}`,
    `Bearer mbk_${"k".repeat(43)}`,
  ]);
  expect(seen[0]?.url).toBe("/v1/chat/completions?x=1");
  expect(seen[0]?.headers.cookie).toBeUndefined();
  expect(seen[0]?.headers["x-show-host"]).toBe("true");
});

test("the body of a GET is not passed on, so that no other reader gets an answer of it", async () => {
  await using rig = await openConsoleRig();
  await using gateway = await serveHttp((request, response) => {
    response.end(JSON.stringify({ url: request.url, length: request.headers["content-length"] }));
  });
  const app = rig.start({ gateway: { url: gateway.url, publicUrl: "", takesKubernetesTokens: true } });
  const { signed } = await signIn(app, { token: await rig.tokenOf("getter") });
  await app.listen({ host: "127.0.0.1", port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const get = async (below: string, body = "") => {
    const headers = { ...signed, host: "localhost:80", "content-length": body.length };
    const request = requestHttp({ port, host: "127.0.0.1", path: `/console/gateway/${below}`, headers });
    request.end(body);
    const [response] = (await once(request, "response")) as [IncomingMessage];
    return JSON.parse(await text(response));
  };
  expect(await get("v1/first", "GET /v1/smuggled HTTP/1.1\r\nhost: x\r\n\r\n")).toEqual({ url: "/v1/first" });
  expect(await get("v1/second")).toEqual({ url: "/v1/second" });
});

test("a gateway with a private authority is reached with that authority only", async () => {
  await using rig = await openConsoleRig();
  const root = createCertificate({ name: "test authority", isAuthority: true });
  const issuer = { name: "test authority", key: root.key };
  const own = createCertificate({ name: "gateway.example", hosts: ["127.0.0.1"], issuer });
  const gateway = createServer({ key: own.key, cert: own.cert }, (_, response) => response.end("[]"));
  gateway.listen(0, "127.0.0.1");
  await once(gateway, "listening");
  const url = `https://127.0.0.1:${(gateway.address() as AddressInfo).port}`;
  const token = await rig.tokenOf("secure");
  const statusWith = async (authority?: string) => {
    const app = rig.start({ gateway: { url, authority, publicUrl: "", takesKubernetesTokens: true } });
    const { signed } = await signIn(app, { token });
    await app.listen({ host: "127.0.0.1", port: 0 });
    const { port } = app.server.address() as AddressInfo;
    const headers = { ...signed, host: "localhost:80" };
    const request = requestHttp({ port, host: "127.0.0.1", path: "/console/gateway/v1/models", headers });
    request.end();
    const [response] = (await once(request, "response")) as [IncomingMessage];
    return [response.statusCode, JSON.parse(await text(response))];
  };
  expect(await statusWith(root.cert)).toEqual([200, []]);
  expect(await statusWith()).toMatchObject([502, { code: "ConsoleGatewayUnreachable" }]);
  gateway.close();
});
