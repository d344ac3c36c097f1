/** One bounded HTTP request on a new connection: a reused one proves nothing about new ones. */
import { type IncomingHttpHeaders, request } from "node:http";

const MAX_RESPONSE_LENGTH = 4 * 1024 * 1024;

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** Parses HOST:PORT of the configuration, where an IPv6 host is in brackets. */
export function parseAddress(text: string): Address {
  const { hostname, port } = new URL(`http://${text}`);
  return { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port) || 80 };
}

export interface EngineResponse {
  readonly status: number;
  readonly headers?: IncomingHttpHeaders;
  readonly body: string;
}

/** The response, or one sentence on why there is none. */
export type EngineReply = EngineResponse | { readonly failed: string };

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

/** The timeout covers everything, the body included. */
export function sendEngineRequest(engineRequest: EngineRequest): Promise<EngineReply> {
  const { host, port, path, timeoutMs, apiKey, signal } = engineRequest;
  return new Promise((resolve) => {
    const body = engineRequest.body === undefined ? undefined : JSON.stringify(engineRequest.body);
    const fail = (error: Error) => resolve({ failed: describeNetworkError(error, timeoutMs) });
    const call = request(
      {
        ...{ host, port, path, signal },
        method: engineRequest.method ?? (body === undefined ? "GET" : "POST"),
        agent: false,
        headers: {
          ...engineRequest.headers,
          connection: "close",
          ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
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
          if (size > MAX_RESPONSE_LENGTH) response.destroy(new Error("the answer is too large"));
          else chunks.push(chunk);
        });
        response.on("end", () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: Buffer.concat(chunks).toString("utf8"),
          }),
        );
        response.on("error", fail);
      },
    );
    call.on("error", fail);
    // Not AbortSignal.timeout: its timer would outlive the request, one for every probe.
    const timer = setTimeout(() => call.destroy(new Timeout()), timeoutMs);
    call.on("close", () => clearTimeout(timer));
    call.end(body);
  });
}

class Timeout extends Error {}

/** Why there was no answer, in plain words. */
export function describeNetworkError(error: Error, timeoutMs: number): string {
  const { code } = error as NodeJS.ErrnoException;
  if (error instanceof Timeout) return `no answer within ${timeoutMs} ms`;
  if (code === "ECONNREFUSED") return "nothing is listening on the port";
  if (code === "ECONNRESET") return "the connection was closed without an answer";
  return error.message;
}
