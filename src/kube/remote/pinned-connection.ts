/** TLS connections to servers that are recognized by the fingerprints of their certificates. */
import { connect, type TLSSocket } from "node:tls";
import { fingerprintOf } from "./fingerprint.ts";

export interface PinnedServer {
  readonly host: string;
  readonly port: number;
  /** Fingerprints of the certificates that the server may have. */
  readonly fingerprints: readonly string[];
}

export interface PinnedClient {
  /** Key and certificate in PEM, which the client proves. */
  readonly key: string;
  readonly cert: string;
  readonly timeoutMs: number;
}

/** The caller writes nothing before `done`: until then the server has not proved who it is. `done` is called once. */
export function connectPinned(
  { host, port, fingerprints }: PinnedServer,
  { key, cert, timeoutMs }: PinnedClient,
  done: (error: Error | null, socket: TLSSocket) => void,
): TLSSocket {
  const socket = connect({ host, port, key, cert, rejectUnauthorized: false, minVersion: "TLSv1.3" });
  const fail = (error: Error): void => {
    socket.off("error", fail);
    socket.on("error", () => undefined);
    socket.destroy();
    done(error, socket);
  };
  socket.once("error", fail);
  socket.setTimeout(timeoutMs, () => fail(new Error("no connection in time")));
  socket.once("secureConnect", () => {
    const fingerprint = fingerprintOf(socket);
    if (fingerprint === undefined || !fingerprints.includes(fingerprint))
      return fail(new Error("another certificate than its Host's"));
    socket.off("error", fail);
    socket.setTimeout(0);
    socket.removeAllListeners("timeout");
    done(null, socket);
  });
  return socket;
}
