/** What the gate answers itself. */
import type { ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

export function sendJson(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Readonly<Record<string, string>>,
): void {
  if (response.destroyed || response.headersSent) return;
  const text = JSON.stringify(body);
  const length = Buffer.byteLength(text);
  response.writeHead(status, { "content-type": "application/json", "content-length": length, ...headers });
  response.end(text);
}

/** For which the client may take to read that. */
const LAST_WORD_MS = 1_000;

/** Nothing can be said to a client before its handshake has finished. */
export function isHandshakeError(code: string | undefined): boolean {
  return code?.startsWith("ERR_TLS") === true || code?.startsWith("ERR_SSL") === true;
}

/** To a request that the parser refuses, so that there is no response to write to. */
export function rejectMalformed(socket: Duplex, status: string, reason: string): void {
  const body = JSON.stringify({
    error: { message: status, type: reason, code: Number.parseInt(status, 10) },
  });
  const head = `HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Type: application/json`;
  const late = setTimeout(() => socket.destroy(), LAST_WORD_MS);
  socket.once("close", () => clearTimeout(late));
  socket.end(`${head}\r\nContent-Length: ${body.length}\r\n\r\n${body}`, () => socket.destroy());
}
