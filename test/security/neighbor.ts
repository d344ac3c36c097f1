/** What a neighbor on the network reaches: a part's real listener, and bytes that a client of ours would not send. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { PeerIdentity } from "../../agent/peers/identity.ts";

export interface Place {
  readonly address: string;
  readonly port: number;
}

/** One attempt: what is sent, and the status or "nothing" that comes back, or how the system refuses the connection. */
export type Attempt = readonly [what: string, bytes: string, answer: string];

export const head = (line: string, ...headers: string[]): string => [line, ...headers, "", ""].join("\r\n");

/** A request to this machine's usual name with nothing unusual. */
export const ask = (target: string, ...headers: string[]): string =>
  head(`${target} HTTP/1.1`, "Host: 127.0.0.1", ...headers);

/** The statuses that come back for these bytes, `most` at most, or "nothing" where the connection ends without any. */
export async function answersTo({ address, port }: Place, bytes: string, most = 1): Promise<string> {
  const socket = connect(port, address);
  return statusesFrom(socket, bytes, most);
}

/** The same by TLS, with this certificate or none. */
export async function answersToPeer(
  { address, port }: Place,
  bytes: string,
  { identity, maxVersion }: { readonly identity?: PeerIdentity; readonly maxVersion?: "TLSv1.2" } = {},
): Promise<string> {
  const own = { key: identity?.key, cert: identity?.cert };
  return statusesFrom(
    connectTls({ host: address, port, rejectUnauthorized: false, maxVersion, ...own }),
    bytes,
  );
}

async function statusesFrom(socket: Socket, bytes: string, most = 1): Promise<string> {
  let text = "";
  let refused: string | undefined;
  const statuses = () => text.match(/HTTP\/1\.1 \d{3}/g)?.map((line) => line.slice(-3)) ?? [];
  socket.setEncoding("latin1").on("data", (chunk: string) => {
    text += chunk;
    if (statuses().length >= most) socket.destroy();
  });
  socket.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "ECONNREFUSED") refused = "refused";
  });
  socket.write(bytes, "latin1");
  // The other side may have had enough before all is written.
  if (!socket.destroyed) await once(socket, "close").catch(() => undefined);
  if (text !== "" && statuses().length === 0) return text;
  return refused ?? (statuses().slice(0, most).join(" ") || "nothing");
}
