import { once } from "node:events";
import { createServer, get, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo, connect, type Server, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { connect as connectTls } from "node:tls";
import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { selfSigned } from "../../test/fixtures/self-signed.ts";
import { limitConnections } from "./connections.ts";

/** A test answers /held itself. */
async function serve(
  make: (respond: (request: IncomingMessage, response: ServerResponse) => void) => Server,
) {
  const server = make(({ url }, response) => {
    if (url !== "/held") response.end("ok");
  });
  limitConnections(server, { total: 4, perAddress: 2 });
  const sockets: Socket[] = [];
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  server.listen(0, "0.0.0.0");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const keep = <S extends Socket>(socket: S): S => {
    sockets.push(socket.on("error", () => {}).resume());
    return socket;
  };
  /** A connection that the server has accepted. */
  const open = async (localAddress: string): Promise<Socket> => {
    const accepted = once(server, "connection");
    const socket = keep(connect({ port, host: "127.0.0.1", localAddress }));
    await accepted;
    return socket;
  };
  const probe = async (localAddress: string): Promise<string> => {
    const request = get({ port, host: "127.0.0.1", localAddress, agent: false });
    const [response] = (await once(request, "response")) as [IncomingMessage];
    return text(response);
  };
  /** Its response. */
  const hold = async (socket: Socket): Promise<ServerResponse> => {
    const requested = once(server, "request");
    socket.write("GET /held HTTP/1.1\r\nhost: a\r\n\r\n");
    return ((await requested) as [IncomingMessage, ServerResponse])[1];
  };
  return { server, port, open, probe, keep, hold };
}

test("a probe is answered while idle connections hold every place, and takes the oldest of the address that holds most", async () => {
  const { open, probe } = await serve(createServer);
  const [first, second, third, fourth] = [
    await open("127.0.0.3"),
    await open("127.0.0.1"),
    await open("127.0.0.1"),
    await open("127.0.0.2"),
  ];
  const closed = once(second, "close");
  expect(await probe("127.0.0.4")).toBe("ok");
  await closed;
  expect([first, third, fourth].map((socket) => socket.closed)).toEqual([false, false, false]);
});

test("an address that has its share replaces its own connections only, and none with a request under way", async () => {
  const { open, probe, hold } = await serve(createServer);
  const other = await open("127.0.0.2");
  const busy = await open("127.0.0.1");
  const response = await hold(busy);
  const idle = await open("127.0.0.1");
  const closed = once(idle, "close");
  expect(await probe("127.0.0.1")).toBe("ok");
  await closed;
  const answered = once(busy, "data");
  response.end("done");
  expect(String(await answered)).toContain("done");
  expect(other.closed).toBe(false);
});

test("a request that was answered keeps no place", async () => {
  const { open, probe, hold } = await serve(createServer);
  const busy = await open("127.0.0.1");
  const response = await hold(busy);
  const done = await open("127.0.0.1");
  (await hold(done)).end();
  await once(done, "data");
  const closed = once(done, "close");
  expect(await probe("127.0.0.1")).toBe("ok");
  await closed;
  expect([busy.closed, response.destroyed]).toEqual([false, false]);
});

test("where every connection has a request under way, the oldest is closed", async () => {
  const { open, probe, hold } = await serve(createServer);
  const [first, second] = [await open("127.0.0.1"), await open("127.0.0.1")];
  await hold(first);
  const response = await hold(second);
  const closed = once(first, "close");
  expect(await probe("127.0.0.1")).toBe("ok");
  await closed;
  expect([second.closed, response.destroyed]).toEqual([false, false]);
});

test("whoever connects in whatever order, no limit is exceeded and the newest connection stays", async () => {
  const { server, open } = await serve(createServer);
  const accepted: Socket[] = [];
  server.on("connection", (socket) => accepted.push(socket));
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 5 }), { maxLength: 12 }), async (clients) => {
      for (const client of clients) {
        const address = `127.0.0.${client}`;
        await open(address);
        const held = accepted.filter(({ destroyed }) => !destroyed);
        expect(held.at(-1)).toBe(accepted.at(-1));
        expect(held.length).toBeLessThanOrEqual(4);
        const own = held.filter(({ remoteAddress }) => remoteAddress === address);
        expect(own.length).toBeLessThanOrEqual(2);
      }
    }),
    { numRuns: 30 },
  );
});

test("a request under way by TLS is spared too", async () => {
  const { port, open, hold, keep } = await serve((respond) => createTlsServer(selfSigned(), respond));
  const busy = keep(connectTls({ port, host: "127.0.0.1", rejectUnauthorized: false }));
  await once(busy, "secureConnect");
  const response = await hold(busy);
  const idle = await open("127.0.0.1");
  const closed = once(idle, "close");
  await open("127.0.0.1");
  await closed;
  const answered = once(busy, "data");
  response.end("done");
  expect(String(await answered)).toContain("done");
});
