/** One bounded HTTP request on a new connection: a reused one proves nothing about new ones. */
import { type IncomingHttpHeaders, request } from "node:http";

const MAX_ANSWER = 4 * 1024 * 1024;

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** Of a configuration's HOST:PORT; an IPv6 host is in brackets. */
export function addressIn(text: string): Address {
  const { hostname, port } = new URL(`http://${text}`);
  return { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port) || 80 };
}

export interface EngineResponse {
  readonly status: number;
  readonly headers?: IncomingHttpHeaders;
  readonly body: string;
}

export interface EngineRequest {
  readonly host: string;
  readonly port: number;
  readonly path: string;
  readonly timeoutMs: number;
  readonly apiKey?: string | undefined;
  /** Aborts the request: an agent that exits must not wait for an answer. */
  readonly signal?: AbortSignal | undefined;
  /** Sent as JSON by POST; absent for GET. */
  readonly body?: object;
  readonly method?: "DELETE" | "HEAD" | "PUT";
  readonly headers?: Readonly<Record<string, string>>;
}

/** The answer, or one sentence on why there is none. The timeout covers everything, the body included. */
export function sendEngineRequest(
  what: EngineRequest,
): Promise<EngineResponse | { readonly failed: string }> {
  return new Promise((resolve) => {
    const body = what.body === undefined ? undefined : JSON.stringify(what.body);
    const call = request(
      {
        host: what.host,
        port: what.port,
        path: what.path,
        method: what.method ?? (body === undefined ? "GET" : "POST"),
        agent: false,
        signal: what.signal,
        headers: {
          ...what.headers,
          connection: "close",
          ...(what.apiKey === undefined ? {} : { authorization: `Bearer ${what.apiKey}` }),
          ...(body === undefined
            ? {}
            : { "content-type": "application/json", "content-length": Buffer.byteLength(body) }),
        },
      },
      (response) => {
        const chunks: Buffer[] = [];
        let size = 0;
        response.on("data", (chunk: Buffer) => {
          size += chunk.length;
          if (size > MAX_ANSWER) response.destroy(new Error("the answer is too large"));
          else chunks.push(chunk);
        });
        response.on("end", () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: Buffer.concat(chunks).toString("utf8"),
          }),
        );
        response.on("error", (error) => resolve({ failed: describeNetworkError(error, what.timeoutMs) }));
      },
    );
    call.on("error", (error) => resolve({ failed: describeNetworkError(error, what.timeoutMs) }));
    // Not AbortSignal.timeout: one of those per probe would live on for its whole time.
    const late = setTimeout(() => call.destroy(new Late()), what.timeoutMs);
    call.on("close", () => clearTimeout(late));
    call.end(body);
  });
}

/** Undefined for what is no JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

class Late extends Error {}

/** Why there was no answer, in plain words. */
export function describeNetworkError(error: Error, timeoutMs: number): string {
  const { code } = error as NodeJS.ErrnoException;
  if (error instanceof Late) return `no answer within ${timeoutMs} ms`;
  if (code === "ECONNREFUSED") return "nothing is listening on the port";
  if (code === "ECONNRESET") return "the connection was closed without an answer";
  return error.message;
}
