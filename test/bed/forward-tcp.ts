/** Carries TCP connections from one address to another, byte by byte. */
import { connect, createServer, type Socket } from "node:net";

export interface Forward {
  readonly port: number;
  readonly close: () => Promise<void>;
}

/** Listens on a free port of `listen`; closing it ends the open connections too. */
export function forwardTcp(options: {
  readonly listen: string;
  readonly to: { readonly host: string; readonly port: number };
}): Promise<Forward> {
  const open = new Set<Socket>();
  const track = (socket: Socket, other: Socket) => {
    open.add(socket);
    socket.on("error", () => other.destroy());
    socket.on("close", () => {
      open.delete(socket);
      other.destroy();
    });
  };
  const server = createServer((inbound) => {
    const outbound = connect(options.to);
    track(inbound, outbound);
    track(outbound, inbound);
    inbound.pipe(outbound);
    outbound.pipe(inbound);
  });
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      for (const socket of open) socket.destroy();
    });
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host: options.listen, port: 0 }, () => {
      const address = server.address();
      resolve({ port: typeof address === "object" && address !== null ? address.port : 0, close });
    });
  });
}
