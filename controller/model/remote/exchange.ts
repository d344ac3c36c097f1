/** One GET: redirects followed within bounds, every address judged when it is connected to, silence ended. */
import { type LookupAddress, lookup as resolve } from "node:dns";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { type AddressPolicy, isForbiddenAddress } from "../../../src/source/address-policy.ts";
import { LookFailure, lasting, passing, plainUrl } from "./failure.ts";

export interface RemoteConfig {
  readonly hfEndpoint: string;
  readonly addresses: AddressPolicy;
  /** Without a byte for so long a server counts as stalled. */
  readonly stallMs: number;
  /** A whole look may take so long. */
  readonly lookMs: number;
  /** A header may be so long. */
  readonly maxHeaderBytes: number;
}

export interface ExchangeOptions {
  readonly headers: Readonly<Record<string, string>>;
  /** Sent to the first server only, never along a redirect to another. */
  readonly secretHeaders: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

export interface Answer {
  readonly url: URL;
  readonly status: number;
  readonly response: IncomingMessage;
  /** Headers of the redirects passed on the way; a hub says there what its storage does not. */
  readonly hops: readonly IncomingMessage["headers"][];
}

const MAX_REDIRECTS = 10;
const REDIRECTS = new Set([301, 302, 303, 307, 308]);

/** The answer to a GET of `url`, whatever its status. The caller ends the response. */
export async function exchange(url: URL, options: ExchangeOptions, config: RemoteConfig): Promise<Answer> {
  const visited = new Set<string>();
  const hops: IncomingMessage["headers"][] = [];
  let at = url;
  for (;;) {
    if (visited.has(at.href)) throw lasting("SourceRedirects", `${plainUrl(url)} redirects in a circle`);
    visited.add(at.href);
    const secret = at.origin === url.origin ? options.secretHeaders : {};
    const response = await get(at, { ...options.headers, ...secret }, options.signal, config);
    const status = response.statusCode ?? 0;
    if (!REDIRECTS.has(status)) return { url: at, status, response, hops };
    response.destroy();
    hops.push(response.headers);
    if (visited.size > MAX_REDIRECTS)
      throw lasting("SourceRedirects", `${plainUrl(url)} redirects more than ${MAX_REDIRECTS} times`);
    at = next(at, response.headers.location);
  }
}

function next(from: URL, location: string | undefined): URL {
  if (location === undefined || !URL.canParse(location, from.href)) {
    throw lasting("SourceRedirects", `${plainUrl(from)} redirects to nowhere`);
  }
  const to = new URL(location, from);
  if (to.protocol !== "http:" && to.protocol !== "https:") {
    throw lasting("SourceNotAllowed", `${plainUrl(from)} redirects to ${to.protocol}`);
  }
  if (from.protocol === "https:" && to.protocol === "http:") {
    throw lasting("SourceNotAllowed", `${plainUrl(from)} redirects from https to http`);
  }
  return to;
}

function get(
  url: URL,
  headers: Record<string, string>,
  signal: AbortSignal,
  config: RemoteConfig,
): Promise<IncomingMessage> {
  const host = url.hostname.replace(/^\[|\]$/g, "");
  if (isIP(host) !== 0 && isForbiddenAddress(host, config.addresses)) throw forbidden(url, host);
  const send = url.protocol === "https:" ? requestHttps : requestHttp;
  return new Promise((settle, reject) => {
    const request = send(url, {
      headers: { "user-agent": "metalbridge", "accept-encoding": "identity", ...headers },
      signal,
      agent: false,
      lookup: judgedLookup(url, config.addresses),
    });
    request.setTimeout(config.stallMs, () => request.destroy(stalled(url, config)));
    request.once("error", (error) => reject(connectionFailure(url, error, signal)));
    request.once("response", settle);
    request.end();
  });
}

export function stalled(url: URL, { stallMs }: RemoteConfig): LookFailure {
  return passing("SourceStalled", `${plainUrl(url)} sent nothing for ${Math.ceil(stallMs / 1000)} s`);
}

function connectionFailure(url: URL, error: Error, signal: AbortSignal): unknown {
  if (error instanceof LookFailure) return error;
  if (signal.aborted) return signal.reason;
  const code = "code" in error ? String(error.code) : error.message;
  return passing("SourceUnreachable", `${url.host} could not be reached (${code})`, error);
}

/** Resolves a name and gives out only addresses that the policy allows. */
function judgedLookup(url: URL, policy: AddressPolicy): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname, { ...options, all: true }, (error, addresses: LookupAddress[]) => {
      if (error !== null) return callback(error, []);
      const [first, ...rest] = addresses.filter(({ address }) => !isForbiddenAddress(address, policy));
      if (first === undefined) return callback(forbidden(url, addresses[0]?.address ?? hostname), []);
      if (options.all) return callback(null, [first, ...rest]);
      return callback(null, first.address, first.family);
    });
  };
}

function forbidden(url: URL, address: string): LookFailure {
  return lasting("SourceNotAllowed", `${url.hostname} leads to ${address}, which downloads may not reach`);
}
