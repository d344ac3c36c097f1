import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import { limitConnections } from "./connections.ts";

async function startServer() {
  const server = createServer();
  limitConnections(server, { total: 4, perAddress: 2 });
  server.on("connection", (socket) => {
    socket.on("error", () => {});
    if (!socket.destroyed) socket.write("hello");
  });
  server.listen(0, "0.0.0.0");
  await once(server, "listening");
  const sockets: Socket[] = [];
  const { port } = server.address() as AddressInfo;
  /** "hello", or what became of the connection. */
  const open = async (localAddress: string): Promise<string> => {
    const socket = connect({ port, host: "127.0.0.1", localAddress });
    sockets.push(socket);
    return new Promise((resolve) => {
      socket.once("data", (data) => resolve(String(data)));
      socket.once("error", () => resolve("closed")).once("close", () => resolve("closed"));
    });
  };
  return {
    ...{ open, sockets, server },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

test("one address leaves room for others, all together have a limit, and what ends makes room again", async () => {
  await using bed = await startServer();
  expect(await bed.open("127.0.0.1")).toBe("hello");
  expect(await bed.open("127.0.0.1")).toBe("hello");
  expect(await bed.open("127.0.0.1")).toBe("closed");
  expect(await bed.open("127.0.0.2")).toBe("hello");
  expect(await bed.open("127.0.0.3")).toBe("hello");
  expect(await bed.open("127.0.0.4")).toBe("closed");
  bed.sockets[0]?.destroy();
  await expect.poll(() => bed.open("127.0.0.1")).toBe("hello");
});
