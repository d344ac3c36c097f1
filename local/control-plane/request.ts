/** Sends small requests to the local API server for readiness and the first objects, before there is a client. */
import { request as httpsRequest } from "node:https";

export interface ApiAccess {
  readonly url: string;
  readonly certificateAuthority: string;
  readonly token: string;
}

export interface ApiResponse {
  readonly status: number;
  readonly body: string;
}

interface Call {
  readonly method: "GET" | "PATCH" | "POST";
  readonly path: string;
  readonly body?: string;
  readonly contentType?: string;
  readonly timeoutMs?: number;
}

/** Rejects if there is no complete response in time. */
export function callApi(access: ApiAccess, call: Call): Promise<ApiResponse> {
  const { method, path, body, contentType = "application/json", timeoutMs = 60_000 } = call;
  return new Promise((resolve, reject) => {
    const request = httpsRequest(
      new URL(path, access.url),
      {
        method,
        ca: access.certificateAuthority,
        agent: false,
        signal: AbortSignal.timeout(timeoutMs),
        headers: {
          authorization: `Bearer ${access.token}`,
          accept: "application/json",
          ...(body === undefined
            ? {}
            : { "content-type": contentType, "content-length": Buffer.byteLength(body) }),
        },
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.once("error", reject);
        response.once("end", () =>
          resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString("utf8") }),
        );
      },
    );
    request.once("error", reject);
    request.end(body);
  });
}
