/** The HTTP client for sources. It checks every address, follows redirects itself, and limits every wait. */
import {
  type ClientRequest,
  request as httpRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type RequestOptions,
} from "node:http";
import { request as httpsRequest } from "node:https";
import { notAllowed, permanent, plainUrl, SourceFailure, statusFailure, transient } from "./failure.ts";
import { checkUrl, guardedLookup, type HostRules } from "./guard.ts";
import { parseContentRange } from "./lengths.ts";
import { proxyFor } from "./proxy.ts";

export interface HttpRules extends HostRules {
  readonly connectMs: number;
  /** Aborts a request after this many ms without data, before or after its headers. */
  readonly stallMs: number;
  readonly maxRedirects: number;
  /** The requests in progress. Calling an entry aborts its request with the reason. */
  readonly underWay?: Set<(reason: SourceFailure) => void>;
}

export interface HttpRequest {
  readonly method?: "GET" | "HEAD" | "POST";
  /** Body of a POST. */
  readonly body?: string;
  /** Headers that are sent to all servers, including redirects. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/** Authorizes the requests of one kind of source. Called only for the origin of the first address. */
export interface RequestAuthorizer {
  /** Returns headers that authorize one request, for example its signature. Rejects with SourceFailure. */
  readonly authorize?: (request: {
    readonly url: URL;
    readonly method: NonNullable<HttpRequest["method"]>;
    readonly headers: Readonly<Record<string, string>>;
    readonly signal: AbortSignal;
  }) => Promise<Readonly<Record<string, string>>>;
  /**
   * Called with responses that are not successful, including redirects, and may consume their body. Returns the address to
   * resend the request to after it has learned a token or a region; undefined leaves the response to the caller. Rejects with
   * SourceFailure if it can explain the status.
   */
  readonly judge?: (response: SourceResponse, signal: AbortSignal) => Promise<URL | undefined>;
}

export interface SourceResponse {
  /** The address after all redirects. */
  readonly url: URL;
  /** 206 for every response with a part of the file, even if the server sent 200. */
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Headers of the redirects, in which a hub sends values that its storage server does not know. */
  readonly hops: readonly IncomingHttpHeaders[];
  /** Fails with SourceStalled after `stallMs` without a byte. */
  readonly body: IncomingMessage;
}

const REDIRECTS = new Set([301, 302, 303, 307, 308]);
/** Statuses of successful and of conditional or range requests, which `judge` does not see. */
const SETTLED = new Set([200, 206, 304, 416]);

const PROXY_NEEDS_CREDENTIALS = 407;

/** Number of times that one request is sent again: for a token or region, and for the clock. */
const MAX_RESENDS = 2;

/** Sends a request and follows redirects. The caller consumes or destroys the body. Throws SourceFailure, but not for a status. */
export async function sendSourceRequest(
  start: URL,
  request: HttpRequest & RequestAuthorizer,
  rules: HttpRules,
): Promise<SourceResponse> {
  let from = start;
  for (let resends = 0; ; resends += 1) {
    const { judge, ...final } = request;
    const response = await follow(from, resends < MAX_RESENDS ? request : final, rules);
    if (!(response instanceof URL)) return response;
    from = response;
  }
}

/** Resolves to the URL to resend the request to, if `judge` returns one. */
async function follow(
  start: URL,
  request: HttpRequest & RequestAuthorizer,
  rules: HttpRules,
): Promise<SourceResponse | URL> {
  const seen = new Set<string>();
  const hops: IncomingHttpHeaders[] = [];
  let url = start;
  let isSameOrigin = true;
  for (;;) {
    checkUrl(url, rules);
    if (seen.has(url.href))
      throw permanent("SourceRedirects", `${plainUrl(start)} redirects in a circle at ${plainUrl(url)}`);
    seen.add(url.href);
    // After a redirect to another origin, credentials are never sent again, because that server may have chosen the redirect back.
    isSameOrigin &&= url.origin === start.origin;
    const body = await sendOnce(url, await authorized(url, request, isSameOrigin), rules);
    const status = statusOf(body);
    destroyWhenStalled(url, body, rules.stallMs);
    const response: SourceResponse = { url, status, headers: body.headers, hops, body };
    const resendTo = isSameOrigin ? await judged(response, request) : undefined;
    if (resendTo !== undefined) return resendTo;
    if (!REDIRECTS.has(status)) return response;
    body.destroy();
    hops.push(body.headers);
    if (hops.length > rules.maxRedirects)
      throw permanent(
        "SourceRedirects",
        `${plainUrl(start)} redirects more than ${rules.maxRedirects} times`,
      );
    url = redirectTarget(url, body.headers.location);
  }
}

/** Some hubs answer a range request with status 200 and Content-Range. Such a response is a part of the file, like one with 206. */
function statusOf({ statusCode = 0, headers }: IncomingMessage): number {
  const range = statusCode === 200 ? parseContentRange(headers["content-range"]) : undefined;
  return range === undefined || (range.start === 0 && range.end + 1 === range.totalBytes) ? statusCode : 206;
}

async function authorized(
  url: URL,
  { method = "GET", headers = {}, body, authorize, signal }: HttpRequest & RequestAuthorizer,
  isSameOrigin: boolean,
): Promise<OneRequest> {
  const secret = isSameOrigin ? await authorize?.({ url, method, headers, signal }) : undefined;
  return { method, headers: { ...headers, ...secret }, signal, body };
}

async function judged(
  response: SourceResponse,
  { judge, signal }: HttpRequest & RequestAuthorizer,
): Promise<URL | undefined> {
  if (judge === undefined || SETTLED.has(response.status)) return undefined;
  try {
    const again = await judge(response, signal);
    if (again !== undefined) response.body.destroy();
    return again;
  } catch (error) {
    response.body.destroy();
    throw error;
  }
}

/** Requests a small text with status 200. Throws SourceFailure. `onStatus` may throw another failure for a status. */
export async function requestText(
  url: URL,
  request: HttpRequest & RequestAuthorizer,
  rules: HttpRules,
  {
    maxBytes,
    onStatus,
  }: { readonly maxBytes: number; readonly onStatus?: (response: SourceResponse) => void },
): Promise<{ readonly text: string; readonly headers: IncomingHttpHeaders }> {
  const response = await sendSourceRequest(url, request, rules);
  const { status, headers, body } = response;
  try {
    onStatus?.(response);
    if (status !== 200) throw statusFailure(url, status, headers["retry-after"]);
    return { text: await readResponseText(response, maxBytes, request.signal), headers };
  } finally {
    body.destroy();
  }
}

/** Reads the body as text. Throws SourceFailure, also for more than `maxBytes`. */
export async function readResponseText(
  { url, body }: SourceResponse,
  maxBytes: number,
  signal: AbortSignal,
): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of body as AsyncIterable<Uint8Array>) {
      bytes += chunk.length;
      if (bytes > maxBytes)
        throw permanent("SourceRefused", `${plainUrl(url)} answered with more than ${maxBytes} bytes`);
      chunks.push(chunk);
    }
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof SourceFailure) throw error;
    throw transient("SourceTruncated", `${plainUrl(url)} broke off after ${bytes} bytes`, error);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function redirectTarget(from: URL, location: string | undefined): URL {
  const target = location === undefined ? null : URL.parse(location, from.href);
  if (target === null)
    throw permanent("SourceRedirects", `${plainUrl(from)} redirects without a valid Location`);
  if (from.protocol === "https:" && target.protocol === "http:")
    throw notAllowed(
      `${plainUrl(from)} redirects from https to http`,
      "use a source whose redirects stay on https",
    );
  return target;
}

type OneRequest = HttpRequest & { readonly headers: Readonly<Record<string, string>> };

function sendOnce(
  url: URL,
  { method, headers, body, signal }: OneRequest,
  rules: HttpRules,
): Promise<IncomingMessage> {
  const proxy = proxyFor(url);
  const options: RequestOptions = {
    method: method ?? "GET",
    // Without an agent, each request has one connection, which is closed with its body.
    agent: proxy?.agent ?? false,
    headers: { "user-agent": "metalbridge", accept: "*/*", "accept-encoding": "identity", ...headers },
    signal,
    // A proxy looks names up itself.
    lookup: guardedLookup(url, rules),
  };
  const server = proxy === undefined ? url.host : `${url.host} through the proxy ${proxy.name}`;
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const sent: ClientRequest =
      url.protocol === "https:" ? httpsRequest(url, options) : httpRequest(url, options);
    const abort = (failure: SourceFailure) => () => void sent.destroy(failure);
    const unreachable = `could not connect to ${server} within ${rules.connectMs / 1000} s`;
    let timer = setTimeout(abort(transient("SourceUnreachable", unreachable)), rules.connectMs);
    const onConnect = () => {
      clearTimeout(timer);
      timer = setTimeout(abort(stalled(url, rules.stallMs)), rules.stallMs);
    };
    // The connection through a proxy is there already.
    sent.once("socket", (socket) => (socket.connecting ? socket.once("connect", onConnect) : onConnect()));
    const refuse = (status: number) =>
      abort(transient("SourceUnreachable", `could not reach ${server}: the proxy answered ${status}`))();
    // Without a status for a plain request, which the proxy answers itself.
    sent.once("proxyConnect", ({ statusCode = 200 }: { readonly statusCode?: number }) => {
      if (statusCode !== 200) refuse(statusCode);
    });
    let end = (reason: SourceFailure) => void sent.destroy(reason);
    const killNow = (reason: SourceFailure) => end(reason);
    rules.underWay?.add(killNow);
    sent.once("close", () => {
      clearTimeout(timer);
      rules.underWay?.delete(killNow);
    });
    sent.once("response", (response) => {
      clearTimeout(timer);
      if (proxy !== undefined && response.statusCode === PROXY_NEEDS_CREDENTIALS)
        return refuse(PROXY_NEEDS_CREDENTIALS);
      end = (reason) => void response.destroy(reason);
      resolve(response);
    });
    sent.on("error", (error) => reject(connectionFailure(server, error, signal)));
    sent.end(body);
  });
}

/** Matches Node's error codes for untrusted certificates. */
const UNTRUSTED = /CERT|SIGNATURE|SELF_SIGNED|ALTNAME/;

function connectionFailure(server: string, error: Error, signal: AbortSignal): unknown {
  if (error instanceof SourceFailure) return error;
  if (signal.aborted) return signal.reason;
  const code = "code" in error ? String(error.code) : "";
  const detail = error.message || code || "connection failed";
  if (UNTRUSTED.test(code))
    return transient(
      "SourceCertificateUntrusted",
      `${server} has an untrusted certificate: ${detail}`,
      error,
    );
  return transient("SourceUnreachable", `could not reach ${server}: ${detail}`, error);
}

function stalled(url: URL, stallMs: number): SourceFailure {
  return transient("SourceStalled", `${plainUrl(url)} sent no data for ${stallMs / 1000} s`);
}

const TICKS = 4;

/** Destroys the body after a stall. It counts ticks instead of time, because a sleep of this machine is not a stall. */
function destroyWhenStalled(url: URL, body: IncomingMessage, stallMs: number): void {
  let seenBytes = -1;
  let quietTicks = 0;
  const timer = setInterval(() => {
    const { bytesRead } = body.socket;
    // Unread bytes mean that our disk is slow, not the server.
    if (bytesRead !== seenBytes || body.readableLength > 0) {
      seenBytes = bytesRead;
      quietTicks = 0;
      return;
    }
    quietTicks += 1;
    if (quietTicks >= TICKS) body.destroy(stalled(url, stallMs));
  }, stallMs / TICKS).unref();
  body.once("close", () => clearInterval(timer));
}
