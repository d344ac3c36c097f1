/** The cheapest request to an engine: one GET on a bare socket. Every engine gets one every few seconds, for months. */

import { connect } from "node:net";
import { hostInUrl } from "../../../src/util/host-in-url.ts";
import { describeNetworkError, type EngineReply, type EngineRequest } from "./http.ts";

const MAX_RESPONSE_LENGTH = 64 * 1024;
/** All sockets share this buffer: received bytes are copied out before the next read. */
const received = Buffer.allocUnsafeSlow(4 * 1024);

type QuickGet = Pick<EngineRequest, "host" | "port" | "path" | "timeoutMs" | "apiKey" | "signal">;

/**
 * Like `sendEngineRequest`, but for short answers: opens a new connection and asks the server to close it.
 * A chunked body is returned as it was sent.
 */
export function quickGet(request: QuickGet): Promise<EngineReply> {
  const { host, port, timeoutMs, signal } = request;
  return new Promise((resolve) => {
    let text = "";
    const finish = (reply: EngineReply): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", cancel);
      socket.destroy();
      resolve(reply);
    };
    const onRead = (count: number): boolean => {
      text += received.toString("utf8", 0, count);
      if (text.length > MAX_RESPONSE_LENGTH) finish({ failed: "the answer is too large" });
      return true;
    };
    const socket = connect({ host, port, onread: { buffer: received, callback: onRead } });
    const timer = setTimeout(() => finish({ failed: `no answer within ${timeoutMs} ms` }), timeoutMs);
    const cancel = (): void => finish({ failed: "the request was canceled" });
    signal?.addEventListener("abort", cancel, { once: true });
    if (signal?.aborted === true) return cancel();
    socket.on("error", (error) => finish({ failed: describeNetworkError(error, timeoutMs) }));
    socket.on("end", () => finish(parse(text)));
    socket.write(render(request));
  });
}

function render({ host, port, path, apiKey }: QuickGet): string {
  const authority = `${hostInUrl(host)}:${port}`;
  const authorization = apiKey === undefined ? "" : `Authorization: Bearer ${apiKey}\r\n`;
  return `GET ${path} HTTP/1.1\r\nHost: ${authority}\r\n${authorization}Connection: close\r\n\r\n`;
}

function parse(text: string): EngineReply {
  if (text === "") return { failed: "the connection was closed without an answer" };
  const status = /^HTTP\/1\.[01] (\d{3})/.exec(text)?.[1];
  if (status === undefined) return { failed: "the answer is not HTTP" };
  const head = text.indexOf("\r\n\r\n");
  return { status: Number(status), body: head === -1 ? "" : text.slice(head + 4) };
}
