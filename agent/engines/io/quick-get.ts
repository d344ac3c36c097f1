/** The cheapest request to an engine: one GET on a bare socket. Every engine gets one every few seconds, for months. */
import { connect } from "node:net";
import { describeNetworkError, type EngineRequest, type EngineResponse } from "./http.ts";

const MAX_ANSWER = 64 * 1024;
/** All sockets read into it: what arrives is taken out before the next read. */
const arrived = Buffer.allocUnsafeSlow(4 * 1024);

/**
 * Like `sendEngineRequest`, but for short answers: opens a new connection and asks the server to close it.
 * A chunked body is returned as it was sent.
 */
export function quickGet(
  what: Omit<EngineRequest, "body">,
): Promise<EngineResponse | { readonly failed: string }> {
  return new Promise((resolve) => {
    let text = "";
    const finish = (answer: EngineResponse | { readonly failed: string }): void => {
      clearTimeout(late);
      what.signal?.removeEventListener("abort", cancel);
      socket.destroy();
      resolve(answer);
    };
    const take = (count: number): boolean => {
      text += arrived.toString("utf8", 0, count);
      if (text.length > MAX_ANSWER) finish({ failed: "the answer is too large" });
      return true;
    };
    const { host, port } = what;
    const socket = connect({ host, port, onread: { buffer: arrived, callback: take } });
    const late = setTimeout(
      () => finish({ failed: `no answer within ${what.timeoutMs} ms` }),
      what.timeoutMs,
    );
    const cancel = (): void => finish({ failed: "the request was canceled" });
    what.signal?.addEventListener("abort", cancel, { once: true });
    if (what.signal?.aborted === true) return cancel();
    socket.on("error", (error) => finish({ failed: describeNetworkError(error, what.timeoutMs) }));
    socket.on("end", () => finish(parse(text)));
    socket.write(requestFor(what));
  });
}

function requestFor({ host, port, path, apiKey }: Omit<EngineRequest, "body">): string {
  const authority = host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
  const authorization = apiKey === undefined ? "" : `Authorization: Bearer ${apiKey}\r\n`;
  return `GET ${path} HTTP/1.1\r\nHost: ${authority}\r\n${authorization}Connection: close\r\n\r\n`;
}

function parse(text: string): EngineResponse | { readonly failed: string } {
  if (text === "") return { failed: "the connection was closed without an answer" };
  const status = /^HTTP\/1\.[01] (\d{3})/.exec(text)?.[1];
  if (status === undefined) return { failed: "the answer is not HTTP" };
  const head = text.indexOf("\r\n\r\n");
  return { status: Number(status), body: head === -1 ? "" : text.slice(head + 4) };
}
