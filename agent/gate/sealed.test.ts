/** A sealed route: clients are known by their certificates, and any other connection ends without a byte of HTTP. */
import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import type { AgentOptions } from "node:https";
import { join } from "node:path";
import { connect } from "node:tls";
import { describe, expect, test } from "vitest";
import { until } from "../../test/bed/until.ts";
import { gatePorts, openAgent, prepare } from "./fixtures/process.ts";
import { openRaw, steppedStream } from "./fixtures/route.ts";
import { agentOf, createIdentity, type Identity, send, startSealed, statusOf } from "./fixtures/sealed.ts";
import { MAX_UNPROVED } from "./sealed-clients.ts";

const gateway = createIdentity("gateways");
const relay = createIdentity("gateways");

test.each<[string, Identity | undefined, AgentOptions, number | string]>([
  ["a client with a listed certificate", gateway, {}, 200],
  ["a client with a certificate of the same name", createIdentity("gateways"), {}, "ECONNRESET"],
  ["another host", createIdentity("mac-2"), {}, "ECONNRESET"],
  ["a client without a certificate", undefined, {}, "ECONNRESET"],
  ["a listed client that speaks TLS 1.2", gateway, { maxVersion: "TLSv1.2" }, "EPROTO"],
])("%s", async (_, client, options, expected) => {
  await using sealed = await startSealed([gateway]);
  expect(await statusOf(sealed.port, agentOf(client, options))).toBe(expected);
  expect(sealed.daemon.received).toHaveLength(expected === 200 ? 1 : 0);
});

test("serves on an IPv6 address", async () => {
  await using sealed = await startSealed([gateway], { listen: { address: "::1", port: 0 } });
  expect(await statusOf(sealed.port, agentOf(gateway), "::1")).toBe(200);
  expect(await statusOf(sealed.port, agentOf(relay), "::1")).toBe("ECONNRESET");
});

test.each([
  ["plain HTTP", "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"],
  ["garbage", "\0\0\0\0\0\0\0\0\r\n\r\n"],
  ["half a handshake", "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"],
])("%s ends without a byte of HTTP", async (_, bytes) => {
  await using sealed = await startSealed([gateway], { limits: { headMs: 200 } });
  const raw = await openRaw(sealed.port);
  raw.socket.write(bytes, "latin1");
  await once(raw.socket, "close");
  // At most the alert with which TLS ends.
  expect(raw.text.length).toBeLessThan(8);
  expect(raw.text).not.toContain("HTTP");
});

test("a session is not resumed, and a client that was removed does not come back with one", async () => {
  await using sealed = await startSealed([gateway]);
  const open = async (session?: Buffer<ArrayBuffer>) => {
    const { key, cert } = gateway;
    const options = { port: sealed.port, host: "127.0.0.1", key, cert, session, rejectUnauthorized: false };
    const socket = connect(options);
    await once(socket, "secureConnect");
    return socket;
  };
  const first = await open();
  let session = first.getSession() as Buffer<ArrayBuffer> | undefined;
  first.on("session", (next: Buffer<ArrayBuffer>) => {
    session = next;
  });
  first.resume().write("GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  await once(first, "close");
  const second = await open(session);
  expect(second.isSessionReused()).toBe(false);
  second.destroy();
  sealed.list([relay]);
  const third = await open(session);
  let text = "";
  third.on("data", (chunk) => {
    text += chunk;
  });
  third.on("error", () => undefined).write("GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n");
  await once(third, "close");
  expect(text).toBe("");
});

test("a removed client loses its stream at once, a kept one does not notice, and an added one is served at once", async () => {
  const stream = steppedStream();
  await using sealed = await startSealed([gateway, relay], {}, stream.listener);
  const begin = async (client: Identity) => {
    const opened = stream.next();
    const { response } = await send(sealed.port, agentOf(client));
    return { upstream: await opened, response };
  };
  const removed = await begin(gateway);
  const kept = await begin(relay);
  const cut = once(removed.response, "error");
  sealed.list([relay]);
  expect(await cut).toMatchObject([{ code: "ECONNRESET" }]);
  expect(await statusOf(sealed.port, agentOf(gateway))).toBe("ECONNRESET");
  sealed.list([relay, gateway]);
  const added = await begin(gateway);
  for (const { upstream } of [kept, added]) upstream.end("data: [DONE]\n\n");
  for (const { response } of [kept, added])
    expect(await response.setEncoding("utf8").reduce((all, one) => all + one, "")).toBe("data: [DONE]\n\n");
});

test("a new certificate of the host is served to new connections; those that are open do not notice", async () => {
  const stream = steppedStream();
  await using sealed = await startSealed([gateway], {}, stream.listener);
  const opened = stream.next();
  const kept = agentOf(gateway, { keepAlive: true, maxSockets: 1 });
  const { response, servedBy } = await send(sealed.port, kept);
  expect(servedBy).toBe(sealed.host.fingerprint);
  const next = createIdentity("mac-1");
  sealed.install(next);
  (await opened).end("data: [DONE]\n\n");
  expect(await response.setEncoding("utf8").reduce((all, one) => all + one, "")).toBe("data: [DONE]\n\n");
  const answer = async (agent = agentOf(gateway)) => {
    const upstream = stream.next();
    const answered = send(sealed.port, agent);
    (await upstream).end();
    return (await answered).servedBy;
  };
  expect(await answer(kept)).toBe(sealed.host.fingerprint);
  expect(await answer()).toBe(next.fingerprint);
  expect(await statusOf(sealed.port, agentOf(relay))).toBe("ECONNRESET");
  expect(await statusOf(sealed.port, agentOf(gateway, { maxVersion: "TLSv1.2" }))).toBe("EPROTO");
  kept.destroy();
});

describe("a file that cannot be used", () => {
  test.each<[string, "host" | "clients", string | undefined, RegExp]>([
    ["the key of the host is gone", "host", undefined, /^tls: ENOENT/],
    ["the key of the host is damaged", "host", "garbage", /^tls: /],
    ["the list is gone", "clients", undefined, /^clients: ENOENT/],
    [
      "the list is damaged",
      "clients",
      `${gateway.fingerprint}\n${relay.fingerprint.slice(1)}\n`,
      /^clients: .*no fingerprint/,
    ],
  ])("%s: the last one stays in use, and the problem is reported", async (_, which, content, problem) => {
    await using sealed = await startSealed([gateway]);
    if (content === undefined) rmSync(sealed.files[which]);
    else writeFileSync(sealed.files[which], content);
    sealed.update();
    expect(sealed.server.status()).toMatchObject({
      isServing: true,
      problems: [expect.stringMatching(problem)],
    });
    expect(await statusOf(sealed.port, agentOf(gateway))).toBe(200);
    expect(await statusOf(sealed.port, agentOf(relay))).toBe("ECONNRESET");
  });

  test.each<[string, "host" | "clients", RegExp]>([
    ["without a key the route does not serve", "host", /^tls: ENOENT/],
    ["without a list the route does not serve", "clients", /^clients: ENOENT/],
  ])("%s", async (_, missing, problem) => {
    await using sealed = await startSealed([gateway]);
    const tls = {
      ...sealed.route.tls,
      [missing === "host" ? "certFile" : "clientFingerprintsFile"]: "/nowhere",
    };
    await using other = await startSealed([gateway], { tls: tls as typeof sealed.route.tls });
    expect(other.server.status()).toMatchObject({
      listening: true,
      isServing: false,
      problems: [expect.stringMatching(problem)],
    });
    expect(await statusOf(other.port, agentOf(gateway))).not.toBe(200);
  });

  test("with an empty list the route serves no client, and says so", async () => {
    await using sealed = await startSealed([]);
    expect(sealed.server.status()).toMatchObject({
      isServing: false,
      problems: [expect.stringContaining("spec.clientFingerprints of the replica has no entry")],
    });
    expect(await statusOf(sealed.port, agentOf(gateway))).toBe("ECONNRESET");
    sealed.list([gateway]);
    expect(sealed.server.status()).toMatchObject({ isServing: true, problems: [] });
    sealed.list([]);
    expect(sealed.server.status().isServing).toBe(false);
    expect(await statusOf(sealed.port, agentOf(gateway))).toBe("ECONNRESET");
  });
});

test("connections of a stranger that send nothing take no place of a client", async () => {
  await using sealed = await startSealed([gateway], { limits: { connections: 2 } });
  const silent = await Promise.all(Array.from({ length: MAX_UNPROVED + 40 }, () => openRaw(sealed.port)));
  const kept = agentOf(gateway, { keepAlive: true });
  expect(await statusOf(sealed.port, kept)).toBe(200);
  expect(await statusOf(sealed.port, agentOf(gateway))).toBe(200);
  await until(() => expect(sealed.server.status().connections).toBeLessThanOrEqual(MAX_UNPROVED + 1));
  for (const { socket } of silent) socket.destroy();
  kept.destroy();
});

test("after an upgrade, a removed client loses the stream that the earlier gate finishes", async () => {
  const stream = steppedStream();
  await using bed = await prepare(stream.listener);
  const host = createIdentity("mac-1");
  const file = join(bed.folder.root, "current.pem");
  const clientFingerprintsFile = join(bed.folder.root, "clients");
  const list = (...clients: Identity[]) =>
    writeFileSync(clientFingerprintsFile, clients.map(({ fingerprint }) => fingerprint).join("\n"));
  writeFileSync(file, `${host.cert}${host.key}`);
  list(gateway, relay);
  const route = { ...bed.route, tls: { certFile: file, keyFile: file, clientFingerprintsFile } };
  const begin = async (client: Identity) => {
    const opened = stream.next();
    const answer = await send(route.listen.port, agentOf(client));
    return { upstream: await opened, ...answer };
  };
  const first = await openAgent(gatePorts(bed.folder), [route]);
  const removed = await begin(gateway);
  const kept = await begin(relay);
  first.close();
  using second = await openAgent(gatePorts(bed.folder, { release: "2" }));
  const added = await begin(relay);
  expect(added.servedBy).toBe(host.fingerprint);
  const cut = once(removed.response, "error");
  list(relay);
  await second.set([route]);
  expect(await cut).toMatchObject([{ code: "ECONNRESET" }]);
  expect(await statusOf(route.listen.port, agentOf(gateway))).toBe("ECONNRESET");
  for (const { upstream, response } of [kept, added]) {
    upstream.end("data: [DONE]\n\n");
    expect(await response.setEncoding("utf8").reduce((all, one) => all + one, "")).toContain("[DONE]");
  }
});
