/** The HTTP client for sources: guarded addresses, redirects followed by hand, no wait without a limit. */
import {
  type ClientRequest,
  request as httpRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type RequestOptions,
} from "node:http";
import { request as httpsRequest } from "node:https";
import { permanent, plainUrl, SourceFailure, transient } from "./failure.ts";
import { checkUrl, guardedLookup, type HostRules } from "./guard.ts";

export interface HttpRules extends HostRules {
  readonly connectMs: number;
  /** Abort after this many ms without data, before the head of the answer or within its body. */
  readonly stallMs: number;
  readonly maxRedirects: number;
  /** The requests under way: each is ended by calling it with the reason. */
  readonly underWay?: Set<(reason: SourceFailure) => void>;
}

export interface HttpRequest {
  readonly method?: "GET" | "HEAD" | "POST";
  /** Of a POST. */
  readonly body?: string;
  /** Sent everywhere, redirects included. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/** What a kind of source does with its requests, at the origin of the first address and nowhere else. */
export interface RequestAuthorizer {
  /** Headers that authorize one request, signed for it where the source wants that. Rejects with SourceFailure. */
  readonly authorize?: (request: {
    readonly url: URL;
    readonly method: NonNullable<HttpRequest["method"]>;
    readonly headers: Readonly<Record<string, string>>;
    readonly signal: AbortSignal;
  }) => Promise<Readonly<Record<string, string>>>;
  /**
   * Sees answers that are no success, redirects included, and may consume their body: the address to send the request to
   * once more with what was learned (a token, a region); undefined leaves the answer to the caller. Rejects with
   * SourceFailure where it knows more than the status says.
   */
  readonly judge?: (answer: SourceResponse, signal: AbortSignal) => Promise<URL | undefined>;
}

export interface SourceResponse {
  /** Where the redirects led. */
  readonly url: URL;
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Headers of the redirects on the way: a hub gives there what its storage does not. */
  readonly hops: readonly IncomingHttpHeaders[];
  /** Fails with SourceStalled after `stallMs` without a byte. */
  readonly body: IncomingMessage;
}

const REDIRECTS = new Set([301, 302, 303, 307, 308]);
/** Nothing to judge: content, or what a range or validator asked for. */
const SETTLED = new Set([200, 206, 304, 416]);

/** How often one request is sent again after a judgement: for a token or region, and for the clock. */
const MAX_RESENDS = 2;

/** Sends a request and follows redirects, whatever the status. The caller consumes or destroys the body. Throws SourceFailure. */
export async function sendSourceRequest(
  start: URL,
  request: HttpRequest & RequestAuthorizer,
  rules: HttpRules,
): Promise<SourceResponse> {
  let from = start;
  for (let resends = 0; ; resends += 1) {
    const { judge, ...asked } = request;
    const answer = await follow(from, resends < MAX_RESENDS ? request : asked, rules);
    if (!("again" in answer)) return answer;
    from = answer.again;
  }
}

type Judged = SourceResponse | { readonly again: URL };

async function follow(
  start: URL,
  request: HttpRequest & RequestAuthorizer,
  rules: HttpRules,
): Promise<Judged> {
  const seen = new Set<string>();
  const hops: IncomingHttpHeaders[] = [];
  let url = start;
  let isSameOrigin = true;
  for (;;) {
    checkUrl(url, rules);
    if (seen.has(url.href))
      throw permanent("SourceRedirects", `${plainUrl(start)} redirects in a circle at ${plainUrl(url)}`);
    seen.add(url.href);
    // Once elsewhere, never again: whoever answered there may have chosen the way back.
    isSameOrigin &&= url.origin === start.origin;
    const body = await sendOnce(url, await authorized(url, request, isSameOrigin), rules);
    const status = body.statusCode ?? 0;
    destroyWhenStalled(url, body, rules.stallMs);
    const answer: SourceResponse = { url, status, headers: body.headers, hops, body };
    const again = isSameOrigin ? await judged(answer, request) : undefined;
    if (again !== undefined) return { again };
    if (!REDIRECTS.has(status)) return answer;
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

async function authorized(
  url: URL,
  { method = "GET", headers = {}, body, authorize, signal }: HttpRequest & RequestAuthorizer,
  isSameOrigin: boolean,
): Promise<OneRequest> {
  const secret = isSameOrigin ? await authorize?.({ url, method, headers, signal }) : undefined;
  return { method, headers: { ...headers, ...secret }, signal, body };
}

async function judged(
  answer: SourceResponse,
  { judge, signal }: HttpRequest & RequestAuthorizer,
): Promise<URL | undefined> {
  if (judge === undefined || SETTLED.has(answer.status)) return undefined;
  try {
    const again = await judge(answer, signal);
    if (again !== undefined) answer.body.destroy();
    return again;
  } catch (error) {
    answer.body.destroy();
    throw error;
  }
}

/** The whole body as text, at most `maxBytes` of it. Throws SourceFailure. */
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
    throw permanent("SourceNotAllowed", `${plainUrl(from)} redirects from https to http`);
  return target;
}

type OneRequest = HttpRequest & { readonly headers: Readonly<Record<string, string>> };

function sendOnce(
  url: URL,
  { method, headers, body, signal }: OneRequest,
  rules: HttpRules,
): Promise<IncomingMessage> {
  const options: RequestOptions = {
    method: method ?? "GET",
    // No agent: one connection per request, closed with its body.
    agent: false,
    headers: { "user-agent": "metalbridge", accept: "*/*", "accept-encoding": "identity", ...headers },
    signal,
    lookup: guardedLookup(url, rules),
  };
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const sent: ClientRequest =
      url.protocol === "https:" ? httpsRequest(url, options) : httpRequest(url, options);
    const giveUp = (failure: SourceFailure) => () => void sent.destroy(failure);
    const unreachable = `could not connect to ${url.host} within ${rules.connectMs / 1000} s`;
    let timer = setTimeout(giveUp(transient("SourceUnreachable", unreachable)), rules.connectMs);
    sent.once("socket", (socket) =>
      socket.once("connect", () => {
        clearTimeout(timer);
        timer = setTimeout(giveUp(stalled(url, rules.stallMs)), rules.stallMs);
      }),
    );
    let end = (reason: SourceFailure) => void sent.destroy(reason);
    const endNow = (reason: SourceFailure) => end(reason);
    rules.underWay?.add(endNow);
    sent.once("close", () => {
      clearTimeout(timer);
      rules.underWay?.delete(endNow);
    });
    sent.once("response", (response) => {
      clearTimeout(timer);
      end = (reason) => void response.destroy(reason);
      resolve(response);
    });
    sent.on("error", (error) => reject(connectionFailure(url, error, signal)));
    sent.end(body);
  });
}

/** What Node calls the ways in which a certificate can be refused. */
const UNTRUSTED = /CERT|SIGNATURE|SELF_SIGNED|ALTNAME/;

function connectionFailure(url: URL, error: Error, signal: AbortSignal): unknown {
  if (error instanceof SourceFailure) return error;
  if (signal.aborted) return signal.reason;
  const code = "code" in error ? String(error.code) : "";
  const detail = error.message || code || "connection failed";
  if (UNTRUSTED.test(code))
    return transient(
      "SourceCertificateUntrusted",
      `${url.host} has an untrusted certificate: ${detail}`,
      error,
    );
  return transient("SourceUnreachable", `could not reach ${url.host}: ${detail}`, error);
}

function stalled(url: URL, stallMs: number): SourceFailure {
  return transient("SourceStalled", `${plainUrl(url)} sent no data for ${stallMs / 1000} s`);
}

const TICKS = 4;

/** Counts ticks instead of time, so that a machine which slept does not blame the server. */
function destroyWhenStalled(url: URL, body: IncomingMessage, stallMs: number): void {
  let seenBytes = -1;
  let quietTicks = 0;
  const timer = setInterval(() => {
    const { bytesRead } = body.socket;
    // Bytes that wait for us to read them mean that our disk is slow, not the server.
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
