/** An HTTP server of this process on a free port. */
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";

export interface HttpServer extends AsyncDisposable {
  readonly url: string;
  /** `address:port`. */
  readonly host: string;
  readonly port: number;
}

/** Disposal also ends the open connections. */
export async function serveHttp(listener: RequestListener, address = "127.0.0.1"): Promise<HttpServer> {
  const server = createServer(listener).listen(0, address);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const host = `${address}:${port}`;
  return {
    host,
    port,
    url: `http://${host}`,
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, "close");
      server.closeAllConnections();
      server.close();
      await closed;
    },
  };
}
