/**
 * What someone on the network of the hosts tries who has no certificate, key or token, at every port that a host or the
 * server opens to the network. Nothing of it reaches an engine. What is allowed by design has its reason in docs/security.md.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { testAddress } from "../../agent/fixtures/agent.ts";
import { CHAT_PATH, startPair } from "../../agent/gate/fixtures/route.ts";
import { someFacts } from "../../agent/metrics/fixtures/facts.ts";
import { serveLlmfit } from "../../agent/metrics/llmfit.ts";
import { startServer } from "../../agent/metrics/server.ts";
import { createPeerFleet } from "../../agent/peers/fixtures/peer-fleet.ts";
import { createPeerIdentity } from "../../agent/peers/identity.ts";
import { CHUNK_BYTES } from "../../agent/store/content/prefix-hash.ts";
import { fetchOptions } from "../../agent/store/fixtures/store.ts";
import { createDensity } from "../../fitness/density/density.ts";
import { createFitIndex } from "../../fitness/density/fits.ts";
import { catalogRecords } from "../../fitness/density/fixtures/fleet.ts";
import { factsOfHost } from "../../fitness/llmfit/rest/host-facts.ts";
import { createLlmfitRest } from "../../fitness/llmfit/rest/rest.ts";
import { createApp } from "../../server/rest/app.ts";
import { hostSchema } from "../../src/api/host.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { freePort } from "../bed/ports.ts";
import { until } from "../bed/until.ts";
import { keepLines, type LogLine } from "../fixtures/log-lines.ts";
import { ggufBytes, sha256, startOrigin } from "../fixtures/origin.ts";
import { type Attempt, answersTo, answersToPeer, ask, head, type Place } from "./neighbor.ts";

const SECRET = "sesame-0123456789";
const BEARER = `Authorization: Bearer ${SECRET}`;
const LOOPBACK = "127.0.0.1";
const BODY = '{"model":"chat"}';
const LONG = "a".repeat(20 * 1024);
const log = keepLines([]);
const ended: (() => unknown)[] = [];
afterAll(async () => {
  for (const end of ended.reverse()) await end();
});

function fileWithSecret(): string {
  const folder = mkdtempSync(join(tmpdir(), "mb-neighbor-"));
  ended.push(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "secret");
  writeFileSync(file, `${SECRET}\n`, { mode: 0o600 });
  return file;
}

function untilEnd(): AbortSignal {
  const end = new AbortController();
  ended.push(() => end.abort());
  return end.signal;
}

const chat = (...headers: string[]) =>
  ask(`POST ${CHAT_PATH}`, ...headers, `Content-Length: ${BODY.length}`) + BODY;

describe("the peers' port", () => {
  const content = ggufBytes(4 * CHUNK_BYTES + 1, 7);
  const at = `/sha256/${sha256(content)}`;
  // In the name of a Host of the cluster, with a key of one's own.
  const forged = createPeerIdentity("member");
  let place: Place;

  beforeAll(async () => {
    const origin = await startOrigin();
    ended.push(() => origin[Symbol.asyncDispose]());
    origin.serve("/model.gguf", content);
    const fleet = createPeerFleet();
    const [giver, member] = [await fleet.add("giver"), await fleet.add("member")];
    ended.push(
      () => giver[Symbol.asyncDispose](),
      () => member[Symbol.asyncDispose](),
    );
    const source = `${origin.url}/model.gguf`;
    await giver.store.fetch({ source, sha256: sha256(content) }, fetchOptions());
    await giver.report();
    fleet.assign("member", { source });
    place = { address: LOOPBACK, port: giver.port };
    // The host itself is given what the neighbor asks for.
    expect(await answersToPeer(place, ask(`HEAD ${at}`), { identity: member.identity })).toBe("200");
  });

  const attempts: readonly (readonly [string, string])[] = [
    ["reads content by its checksum", ask(`GET ${at}`, "Range: bytes=0-4194303")],
    ["asks whether there is such content", ask(`HEAD ${at}`)],
    ["asks for a file by path", ask("GET /../../../etc/passwd")],
    ["writes", `${ask(`PUT ${at}`, "Content-Length: 2")}{}`],
    ["learns the methods", ask("OPTIONS *")],
    ["asks for a tunnel", head("CONNECT 127.0.0.1:22 HTTP/1.1", "Host: 127.0.0.1:22")],
    ["asks for another protocol", ask(`GET ${at}`, "Connection: Upgrade", "Upgrade: h2c")],
    ["speaks HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    ["speaks HTTP/1.0", head(`GET ${at} HTTP/1.0`)],
    ["names no Host", head(`GET ${at} HTTP/1.1`)],
    ["sends a head that is too long", ask(`GET ${at}`, `X-A: ${LONG}`)],
    ["sends what is no HTTP", "\0\x01\x02\r\n\r\n"],
    ["sends a length and chunks", ask(`POST ${at}`, "Content-Length: 2", "Transfer-Encoding: chunked")],
    ["sends Expect: 100-continue", ask(`POST ${at}`, "Content-Length: 2", "Expect: 100-continue")],
    ["expects something else", ask(`GET ${at}`, "Expect: 200-ok")],
    ["sends its head slowly", `GET ${at} HTTP/1.1\r\nHost:`],
  ];
  test.concurrent.each(attempts)("a stranger who %s is disconnected without an answer", async (_, bytes) => {
    expect(await answersToPeer(place, bytes, { identity: forged })).toBe("nothing");
  });

  test("without a certificate, by TLS 1.2 and without TLS there is no answer either", async () => {
    expect(await answersToPeer(place, ask(`GET ${at}`))).toBe("nothing");
    expect(await answersToPeer(place, ask(`GET ${at}`), { identity: forged, maxVersion: "TLSv1.2" })).toMatch(
      "nothing",
    );
    const plain = await answersTo(place, ask(`GET ${at}`));
    // At most a TLS alert.
    expect(plain).not.toContain("HTTP");
  });
});

describe("the gate of a service with spec.auth", () => {
  let pair: Awaited<ReturnType<typeof startPair>>;
  let place: Place;

  beforeAll(async () => {
    pair = await startPair({ keyFiles: [fileWithSecret()] });
    ended.push(() => pair[Symbol.asyncDispose]());
    place = { address: LOOPBACK, port: pair.port };
    expect(await answersTo(place, chat(BEARER))).toBe("200");
  });

  const withoutKey: readonly Attempt[] = [
    ["a chat", chat(), "401"],
    ["the list of models", ask("GET /v1/models"), "401"],
    ["the deletion of a model", ask("DELETE /api/delete"), "401"],
    ["a download", ask("POST /api/pull"), "401"],
    ["the slots, with the text of their requests", ask("GET /slots"), "401"],
    ["a change of settings", ask("POST /props"), "401"],
    ["the engine's metrics", ask("GET /metrics"), "401"],
    ["the methods", ask("OPTIONS /v1/models"), "401"],
    ["a path that does not exist, to find those that do", ask("GET /nothing"), "401"],
    ["its own request back", ask("TRACE /"), "401"],
    ["another protocol", ask("GET /v1/models", "Connection: Upgrade", "Upgrade: websocket"), "401"],
    ["HTTP/1.0", head("GET /v1/models HTTP/1.0"), "401"],
    ["an absolute URI", head(`GET http://127.0.0.1/v1/models HTTP/1.1`, "Host: x"), "401"],
    ["another Host", head("GET /v1/models HTTP/1.1", "Host: metalbridge.internal"), "401"],
    [
      "a sender of loopback",
      ask("GET /v1/models", "X-Forwarded-For: 127.0.0.1", "Forwarded: for=::1"),
      "401",
    ],
    // By design: load balancers have no key.
    ["whether the gate is there", ask("GET /health"), "200"],
    ["a tunnel", head("CONNECT 127.0.0.1:22 HTTP/1.1", "Host: 127.0.0.1:22"), "nothing"],
  ];
  const withWrongKey: readonly Attempt[] = [
    ["none after the scheme", chat("Authorization: Bearer "), "401"],
    ["the key's beginning", chat(BEARER.slice(0, -1)), "401"],
    ["more than the key", chat(`${BEARER}x`), "401"],
    ["another letter case", chat(BEARER.toUpperCase()), "401"],
    ["another scheme", chat(`Authorization: Basic ${SECRET}`), "401"],
    ["a wrong one before the right one", chat("Authorization: Bearer wrong", BEARER), "401"],
    ["a cookie", chat(`Cookie: key=${SECRET}`), "401"],
    ["the query", ask(`GET /v1/models?api_key=${SECRET}&key=${SECRET}`), "401"],
    ["20 KiB of it", chat(`Authorization: Bearer ${LONG}`), "431"],
  ];
  const withBodies: readonly Attempt[] = [
    ["a body that is too large", ask(`POST ${CHAT_PATH}`, "Content-Length: 99999999999"), "401"],
    [
      "a body without an end",
      `${ask(`POST ${CHAT_PATH}`, "Transfer-Encoding: chunked")}5\r\nhello\r\n`,
      "401",
    ],
    [
      "a body that waits for a word",
      ask(`POST ${CHAT_PATH}`, "Content-Length: 2", "Expect: 100-continue"),
      "100 401",
    ],
    [
      "a length and chunks",
      ask(`POST ${CHAT_PATH}`, "Content-Length: 2", "Transfer-Encoding: chunked"),
      "400",
    ],
    [
      "a trailer with a key",
      `${ask(`POST ${CHAT_PATH}`, "Transfer-Encoding: chunked")}0\r\n${BEARER}\r\n\r\n`,
      "401",
    ],
  ];
  test.each([...withoutKey, ...withWrongKey, ...withBodies])(
    "without the key: %s",
    async (_, bytes, answer) => {
      const before = pair.daemon.received.length;
      expect(await answersTo(place, bytes, answer.split(" ").length)).toBe(answer);
      expect(pair.daemon.received).toHaveLength(before);
    },
  );

  test("a request behind another client's on a shared connection needs the key itself", async () => {
    const before = pair.daemon.received.length;
    expect(await answersTo(place, chat(BEARER) + chat(), 2)).toBe("200 401");
    expect(pair.daemon.received).toHaveLength(before + 1);
  });

  test("whoever has a key manages nothing with it, under any Host", async () => {
    const before = pair.daemon.received.length;
    for (const target of ["DELETE /api/delete", "GET /slots", "POST /props", "POST /models/load"])
      expect([target, await answersTo(place, ask(target, BEARER))]).toEqual([target, "403"]);
    expect(await answersTo(place, ask("GET /metrics", BEARER))).toBe("404");
    expect(pair.daemon.received).toHaveLength(before);
  });
});

describe("metrics on the host's address", () => {
  let place: Place;
  let inside = 0;

  beforeAll(async () => {
    const port = await freePort(testAddress());
    place = { address: testAddress(), port };
    inside = await startServer({
      clock: systemClock,
      port: 0,
      log,
      signal: untilEnd(),
      facts: someFacts,
      problems: () => [],
      readEngines: async () => [],
      readGate: async () => [],
      outside: { ...place, tokenFile: fileWithSecret() },
    });
    await until(async () => expect(await answersTo(place, ask("GET /metrics", BEARER))).toBe("200"));
  });

  const attempts: readonly Attempt[] = [
    ["metrics", ask("GET /metrics"), "401"],
    ["metrics, as if from loopback", ask("GET /metrics", "X-Forwarded-For: 127.0.0.1"), "401"],
    ["metrics, with the token in the query", ask(`GET /metrics?token=${SECRET}`), "401"],
    ["metrics, with the token in a cookie", ask("GET /metrics", `Cookie: token=${SECRET}`), "401"],
    ["metrics by an absolute URI", head("GET http://127.0.0.1/metrics HTTP/1.1", "Host: x"), "401"],
    ["a write", ask("POST /metrics"), "401"],
    ["health", ask("GET /healthz"), "401"],
    ["why the agent is not ready", ask("GET /metrics/../readyz"), "401"],
    ["a name that every object has", ask("GET /constructor"), "401"],
    ["a head that is too long", ask("GET /metrics", `X-A: ${LONG}`), "431"],
  ];
  test.each(attempts)("without the token: %s", async (_, bytes, answer) => {
    expect(await answersTo(place, bytes)).toBe(answer);
  });

  test("the pages that need no token are not there", async () => {
    expect(await answersTo({ ...place, port: inside }, ask("GET /readyz"))).toBe("refused");
  });
});

describe("llmfit's REST API", () => {
  const serve = async (address: string, tokenFile?: string): Promise<Place> => {
    const lines: LogLine[] = [];
    const facts = async () =>
      factsOfHost(hostSchema.parse({ metadata: { name: "mini-1" }, spec: { addresses: [] } }));
    const parts = { clock: systemClock, log: keepLines(lines), signal: untilEnd(), port: 0 };
    serveLlmfit({ ...parts, address, tokenFile, facts, load: async () => createLlmfitRest([]) });
    const listening = () => lines.find(({ message }) => message.startsWith("listening"))?.data.port;
    await until(() => expect(listening()).toBeDefined());
    return { address, port: Number(listening()) };
  };
  let inside: Place;
  let outside: Place;

  beforeAll(async () => {
    inside = await serve(LOOPBACK);
    outside = await serve(testAddress(), fileWithSecret());
    expect(await answersTo(inside, ask("GET /health"))).toBe("200");
    expect(await answersTo(outside, ask("GET /health", BEARER))).toBe("200");
  });

  const system = "GET /api/v1/system HTTP/1.1";
  const ofPages: readonly Attempt[] = [
    ["a name that begins like loopback", head(system, "Host: 127.0.0.1.example.com"), "403"],
    ["a name that ends like localhost", head(system, "Host: example.localhost.com"), "403"],
    ["a user before the name", head(system, "Host: 127.0.0.1@example.com"), "403"],
    ["an origin that is none", head(system, "Host: 127.0.0.1", "Origin: null"), "403"],
    [
      "an origin on loopback's name",
      head(system, "Host: 127.0.0.1", "Origin: http://127.0.0.1.example.com"),
      "403",
    ],
    ["no Host", head("GET /api/v1/system HTTP/1.0"), "403"],
  ];
  test.each(ofPages)("a page that is led to loopback: %s", async (_, bytes, answer) => {
    expect(await answersTo(inside, bytes)).toBe(answer);
  });

  const ofNeighbors: readonly Attempt[] = [
    ["with loopback as Host", ask("GET /api/v1/system"), "401"],
    ["as if from loopback", ask("POST /api/v1/plan", "X-Forwarded-For: 127.0.0.1"), "401"],
    ["with the token in the query", ask(`GET /api/v1/system?token=${SECRET}`), "401"],
    ["health", ask("GET /health"), "401"],
  ];
  test.each(ofNeighbors)("a neighbor without the token: %s", async (_, bytes, answer) => {
    expect(await answersTo(outside, bytes)).toBe(answer);
  });
});

describe("the density API", () => {
  let place: Place;
  const reviewed: string[] = [];

  beforeAll(async () => {
    const app = createApp({
      density: createDensity(createFitIndex(catalogRecords())),
      clock: systemClock,
      log,
      authorize: async (token) => {
        reviewed.push(token);
        return token === SECRET ? { at: "allowed", user: "alice" } : { at: "unauthenticated" };
      },
      notReady: () => undefined,
      mcp: async () => {
        throw new Error("reached");
      },
    });
    ended.push(() => app.close());
    await app.listen({ port: 0, host: LOOPBACK });
    place = { address: LOOPBACK, port: (app.server.address() as AddressInfo).port };
    expect(await answersTo(place, ask("GET /api/v1/density/nodes", BEARER))).toBe("200");
  });

  const nodes = "GET /api/v1/density/nodes";
  const alg = `${btoa('{"alg":"none"}')}.${btoa('{"sub":"system:admin"}')}.`;
  const attempts: readonly Attempt[] = [
    ["its description", ask("GET /openapi.json"), "401"],
    ["a watch", ask(`${nodes}?watch=true`, "Accept: text/event-stream"), "401"],
    [
      "tools for agents",
      `${ask("POST /mcp", "Content-Type: application/json", "Content-Length: 2")}{}`,
      "401",
    ],
    ["a body that is too large", ask("POST /api/v1/density/simulate", "Content-Length: 99999999"), "401"],
    [
      "a user's name, as behind a proxy",
      ask(nodes, "X-Remote-User: admin", "X-Remote-Group: system:masters"),
      "401",
    ],
    ["a token in the query", ask(`${nodes}?access_token=${SECRET}`), "401"],
    ["a token without a signature", ask(nodes, `Authorization: Bearer ${alg}`), "401"],
    ["two tokens", ask(nodes, "Authorization: Bearer wrong", BEARER), "401"],
    ["another Host", head(`${nodes} HTTP/1.1`, "Host: metalbridge.internal"), "401"],
    ["an absolute URI", head("GET http://127.0.0.1/api/v1/density/nodes HTTP/1.1", "Host: x"), "401"],
    ["a path that leads back", ask("GET /health/../api/v1/density/nodes"), "401"],
    ["a length and chunks", ask(nodes, "Content-Length: 2", "Transfer-Encoding: chunked"), "400"],
    ["20 KiB of a token", ask(nodes, `Authorization: Bearer ${LONG}`), "401"],
    ["80 KiB of a token", ask(nodes, `Authorization: Bearer ${LONG.repeat(4)}`), "431"],
  ];
  test.each(attempts)("without a token that may: %s", async (_, bytes, answer) => {
    expect(await answersTo(place, bytes)).toBe(answer);
  });

  test("only tokens are asked for at the API server, and none that comes another way", () => {
    expect(new Set(reviewed)).toEqual(new Set([SECRET, "wrong", alg]));
  });
});
