/** Responses of the gate itself. */
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

/** Time for the client to read the rejection. */
const READ_MS = 1_000;

/** True for errors before the end of the TLS handshake, when no response can be sent. */
export function isHandshakeError(code: string | undefined): boolean {
  return code?.startsWith("ERR_TLS") === true || code?.startsWith("ERR_SSL") === true;
}

/** Answers a request that the parser rejects, for which there is no response object. */
export function rejectMalformed(socket: Duplex, status: string, reason: string): void {
  const body = JSON.stringify({
    error: { message: status, type: reason, code: Number.parseInt(status, 10) },
  });
  const head = `HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Type: application/json`;
  const timer = setTimeout(() => socket.destroy(), READ_MS);
  socket.once("close", () => clearTimeout(timer));
  socket.end(`${head}\r\nContent-Length: ${body.length}\r\n\r\n${body}`, () => socket.destroy());
}
