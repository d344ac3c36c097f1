/** Connections that change to another protocol, against a server that answers in its own way. */
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { createServer, type TLSSocket } from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { createCertificate } from "../../crypto/certificate.ts";
import { connect } from "./connect.ts";

const SWITCHED = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: bytes\r\n\r\n";

/** A connection to a server that answers every request with `answer`, and the sockets that it has accepted. */
async function connectTo(response: string) {
  const folder = await temporaryFolder();
  const sockets: TLSSocket[] = [];
  const { key, cert } = createCertificate({ name: "api", hosts: ["127.0.0.1"] });
  const server = createServer({ key, cert }, (socket) => {
    sockets.push(socket);
    socket.on("error", () => undefined);
    socket.once("data", () => socket.write(response));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const authority = Buffer.from(cert).toString("base64");
  const kubeconfigPath = path.join(folder.path, "config");
  const content = {
    "current-context": "c",
    contexts: [{ name: "c", context: { cluster: "k", user: "u" } }],
    clusters: [{ name: "k", cluster: { server: address, "certificate-authority-data": authority } }],
    users: [{ name: "u", user: { token: "t" } }],
  };
  writeFileSync(kubeconfigPath, JSON.stringify(content));
  const connection = await connect({ kubeconfigPath });
  onTestFinished(async () => {
    connection.close();
    for (const socket of sockets) socket.destroy();
    server.close();
    await folder[Symbol.asyncDispose]();
  });
  return { connection, sockets };
}

const request = { method: "GET", path: "/", timeoutMs: 5_000 } as const;

test("the caller's signal ends a connection that has changed its protocol", async () => {
  const { connection, sockets } = await connectTo(`${SWITCHED}first`);
  const end = new AbortController();
  const response = await connection.upgrade({ ...request, upgrade: "bytes", signal: end.signal });
  if (!response.ok) throw new Error(response.error.message);
  const [bytes] = await once(response.value, "data");
  expect(String(bytes)).toBe("first");
  const closed = sockets.map((socket) => once(socket, "close"));
  end.abort();
  await Promise.all(closed);
  expect(response.value.destroyed).toBe(true);
});

test("an answer that changes the protocol of an ordinary request is a failure at once", async () => {
  const { connection } = await connectTo(SWITCHED);
  expect(await connection.request(request)).toMatchObject({ ok: false, error: { kind: "unreachable" } });
});

test("an answer in place of a changed protocol is a failure", async () => {
  const { connection } = await connectTo("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  const { signal } = new AbortController();
  expect(await connection.upgrade({ ...request, upgrade: "bytes", signal })).toMatchObject({
    ok: false,
    error: { message: expect.stringContaining("status 200 in place of bytes") },
  });
});
