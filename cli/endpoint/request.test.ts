import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type RequestListener, request, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { createServer as createTlsSocketServer } from "node:tls";
import { expect, test } from "vitest";
import { createCertificate } from "../../src/crypto/certificate.ts";
import { fingerprintOfCertificate } from "../../src/kube/remote/fingerprint.ts";
import { createTestAuthority, whyNoAuthority } from "../../test/fixtures/test-authority.ts";
import { newAgent, readJsonResponse, streamEvents } from "./request.ts";
import type { EndpointTarget } from "./target.ts";

const signal = new AbortController().signal;

async function callOf(server: Server, more: Partial<EndpointTarget> = {}) {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const endpoint = { address: "127.0.0.1", port: (server.address() as AddressInfo).port };
  const target: EndpointTarget = { endpoints: [endpoint], model: "chat", ...more };
  return { target, endpoint, path: "/v1/x", body: { model: "chat" }, signal };
}

const answers: RequestListener = (_request, response) => response.end('{"a":1}');

test("events that are cut anywhere are read whole; the last one ends them", async () => {
  const text = 'data: {"n":1}\n\ndata: {"n":"é"}\r\n\r\ndata: [DONE]\n\n';
  const server = createServer(async (_request, response) => {
    for (const byte of Buffer.from(text)) {
      response.write(Buffer.from([byte]));
      await new Promise(setImmediate);
    }
    response.end();
  });
  const seen: unknown[] = [];
  for await (const event of streamEvents(await callOf(server))) seen.push(event);
  expect(seen).toEqual([{ n: 1 }, { n: "é" }]);
  server.close();
});

test("sends the key, and says what an engine that refuses answered", async () => {
  const server = createServer((request, response) => {
    if (request.headers.authorization === "Bearer k") return void response.end("{}");
    response.writeHead(401).end("who are you");
  });
  const call = await callOf(server);
  const known = { ...call, target: { ...call.target, apiKey: "k" } };
  expect(await readJsonResponse(known)).toEqual({});
  await expect(readJsonResponse(call)).rejects.toMatchObject({
    code: "NoAnswer",
    message: expect.stringContaining("/v1/x answered 401: who are you"),
  });
  server.close();
});

test.each([
  [200, ""],
  [500, ""],
  [200, "data: "],
])("an answer of status %i that begins with %j and never ends is not kept", async (status, start) => {
  const server = createServer((_request, response) => {
    response.writeHead(status).write(start);
    const more = () => {
      while (response.write("x".repeat(1 << 20)));
    };
    response.on("drain", more);
    more();
  });
  const call = await callOf(server);
  const read = start === "" ? readJsonResponse(call) : streamEvents(call).next();
  await expect(read).rejects.toMatchObject({
    code: "NoAnswer",
    message: expect.stringContaining("larger than 8 MiB"),
  });
  server.closeAllConnections();
  server.close();
});

test("a kept connection that the engine has closed is replaced", async () => {
  let requests = 0;
  const server = createServer((request, response) => {
    requests += 1;
    response.end("{}", () => request.socket.destroySoon());
  });
  const call = await callOf(server);
  const agent = newAgent(call.target);
  for (let round = 0; round < 5; round += 1) expect(await readJsonResponse({ ...call, agent })).toEqual({});
  expect(requests).toBe(5);
  agent.destroy();
  server.close();
});

test.skipIf(whyNoAuthority() !== undefined)(
  "HTTPS by the Service's name, and not with a certificate that nothing vouches for",
  async () => {
    const authority = createTestAuthority();
    const servername = "chat.team.svc";
    const { certificate: cert, key } = authority.issue("server", { organization: "x", dnsName: servername });
    const server = createTlsServer({ cert, key }, answers);
    const ca = readFileSync(authority.certificateFile, "utf8");
    const call = await callOf(server, { tls: { servername, ca } });
    expect(await readJsonResponse(call)).toEqual({ a: 1 });
    for (const tls of [{ servername }, { servername: "other.team.svc", ca }])
      await expect(readJsonResponse({ ...call, target: { ...call.target, tls } })).rejects.toMatchObject({
        code: "NoAnswer",
      });
    server.close();
    authority.remove();
  },
);

function createIdentity(name: string) {
  const keyed = createCertificate({ name });
  return { ...keyed, fingerprint: fingerprintOfCertificate(new X509Certificate(keyed.cert)) };
}

/** A sealed host, which keeps what it is sent. */
async function startSealedHost(address: string) {
  const { key, cert, fingerprint } = createIdentity("mac-1");
  const refusals: unknown[] = [];
  let received = "";
  const server = createTlsSocketServer(
    { key, cert, requestCert: true, rejectUnauthorized: false },
    (socket) => {
      socket.on("error", () => undefined);
      socket.on("data", (chunk) => {
        received += chunk;
        socket.end('HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n{"a":1}');
      });
    },
  );
  server.on("tlsClientError", (error: NodeJS.ErrnoException) => refusals.push(error.code));
  server.listen(0, address);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return { server, port, fingerprint, refusals, received: () => received };
}

test.each([
  ["127.0.0.1", "127.0.0.1"],
  ["::1", "::1"],
  ["::1", "0:0:0:0:0:0:0:1"],
])("a sealed host on %s is asked at %s, if it has the certificate of its Host", async (listened, address) => {
  const host = await startSealedHost(listened);
  const { port, fingerprint } = host;
  const callWith = (...fingerprints: readonly string[]) => {
    const endpoint = { address, port, fingerprints };
    const target = {
      endpoints: [endpoint],
      model: "chat",
      apiKey: "secret",
      client: createIdentity("client"),
    };
    return { target, endpoint, path: "/v1/x", body: { model: "chat" }, signal };
  };
  const other = createIdentity("mac-2").fingerprint;
  await expect(readJsonResponse(callWith(other))).rejects.toMatchObject({
    code: "NoAnswer",
    message: expect.stringContaining("another certificate"),
  });
  expect([host.received(), host.refusals]).toEqual(["", []]);
  expect(await readJsonResponse(callWith(other, fingerprint))).toEqual({ a: 1 });
  expect(host.received()).toContain("authorization: Bearer secret");
  host.server.close();
});

test("nothing is sent by an agent for sealed endpoints that is not given the endpoint", async () => {
  const server = createServer(answers);
  const call = await callOf(server, { client: createIdentity("client") });
  expect(await readJsonResponse(call)).toEqual({ a: 1 });
  const { port } = call.endpoint;
  expect(() => request({ host: "127.0.0.1", port, agent: newAgent(call.target) })).toThrow(/its endpoint/);
  server.closeAllConnections();
  server.close();
});
