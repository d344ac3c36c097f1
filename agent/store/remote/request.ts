/** One HTTP exchange with a source: guarded addresses, bounded waits, redirects followed by hand. */
import { lookup } from "node:dns";
import type { ClientRequest, IncomingMessage, RequestOptions } from "node:http";
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { type AddressPolicy, isForbiddenAddress } from "../../../src/source/address-policy.ts";
import { type AttemptFailure, lasting, passing, plainUrl } from "./failure.ts";

export interface RemoteRules extends AddressPolicy {
  /** Host names that may be asked; absent means any. */
  readonly allowedHosts?: readonly string[] | undefined;
  /** `host:port` that the operator configured: private and loopback addresses are fine there. */
  readonly trustedHost?: string | undefined;
  readonly connectMs: number;
  readonly stallMs: number;
  readonly maxRedirects: number;
}

export interface Exchange {
  readonly url: URL;
  readonly response: IncomingMessage;
  /** Headers of the first answer, before any redirect: Hugging Face says the checksum there. */
  readonly firstHeaders: IncomingMessage["headers"];
}

interface Ask {
  readonly method: "GET" | "HEAD";
  /** Sent everywhere, redirects included. */
  readonly headers: Readonly<Record<string, string>>;
  /** Sent only to the origin of the first address. */
  readonly secretHeaders: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

const REDIRECTS = new Set([301, 302, 303, 307, 308]);

/** Sends a request and follows redirects; the caller must consume or destroy the response. */
export async function exchange(start: URL, ask: Ask, rules: RemoteRules): Promise<Exchange> {
  const seen = new Set<string>();
  let url = start;
  let firstHeaders: IncomingMessage["headers"] | undefined;
  let isSameOrigin = true;
  for (let hop = 0; hop <= rules.maxRedirects; hop += 1) {
    checkUrl(url, rules);
    if (seen.has(url.href))
      throw lasting("SourceRedirects", `${plainUrl(start)} redirects in a circle at ${plainUrl(url)}`);
    seen.add(url.href);
    isSameOrigin &&= url.origin === start.origin;
    const headers = isSameOrigin ? { ...ask.headers, ...ask.secretHeaders } : ask.headers;
    const response = await send(url, { ...ask, headers }, rules);
    firstHeaders ??= response.headers;
    if (!REDIRECTS.has(response.statusCode ?? 0)) return { url, response, firstHeaders };
    response.destroy();
    url = redirectTarget(url, response.headers.location);
  }
  throw lasting("SourceRedirects", `${plainUrl(start)} redirects more than ${rules.maxRedirects} times`);
}

function redirectTarget(from: URL, location: string | undefined): URL {
  const target = location === undefined ? null : URL.parse(location, from.href);
  if (target === null)
    throw lasting("SourceRedirects", `${plainUrl(from)} redirects to nowhere (${location ?? "no Location"})`);
  return target;
}

function checkUrl(url: URL, rules: RemoteRules): void {
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw lasting("SourceNotAllowed", `${url.protocol} addresses are not fetched`);
  }
  if (rules.trustedHost !== url.host && !isHostAllowed(url.hostname, rules.allowedHosts)) {
    throw lasting("SourceNotAllowed", `host ${url.hostname} is not among the allowed remote hosts`);
  }
  const literal = url.hostname.replace(/^\[|\]$/g, "");
  if (isIP(literal) !== 0 && isForbiddenAddress(literal, rulesFor(url, rules)))
    throw addressRefused(url, literal);
}

function isHostAllowed(hostname: string, allowed: readonly string[] | undefined): boolean {
  if (allowed === undefined) return true;
  const name = hostname.toLowerCase();
  return allowed.some((entry) => {
    const want = entry.toLowerCase();
    return want.startsWith("*.") ? name.endsWith(want.slice(1)) : name === want;
  });
}

function rulesFor(url: URL, rules: RemoteRules): AddressPolicy {
  return url.host === rules.trustedHost ? { allowLoopback: true, allowPrivate: true } : rules;
}

function addressRefused(url: URL, address: string): AttemptFailure {
  return lasting(
    "SourceNotAllowed",
    `${url.hostname} is at ${address}, an address that downloads may not use`,
  );
}

function send(url: URL, ask: Ask, rules: RemoteRules): Promise<IncomingMessage> {
  const refusal: { failure?: AttemptFailure } = {};
  const options: RequestOptions = {
    method: ask.method,
    // No agent: one connection per exchange, closed with its response.
    agent: false,
    headers: {
      "user-agent": "metalbridge-agent",
      accept: "*/*",
      "accept-encoding": "identity",
      ...ask.headers,
    },
    signal: ask.signal,
    lookup: guardedLookup(url, rules, refusal),
  };
  return new Promise((resolve, reject) => {
    const sent: ClientRequest =
      url.protocol === "https:" ? httpsRequest(url, options) : httpRequest(url, options);
    // Also covers a server that accepts and never answers; the body has a stall watch of its own.
    sent.setTimeout(Math.max(rules.connectMs, rules.stallMs), () =>
      sent.destroy(
        passing("SourceStalled", `${plainUrl(url)} did not answer within ${rules.stallMs / 1000} s`),
      ),
    );
    const connecting = setTimeout(
      () =>
        sent.destroy(
          passing("SourceUnreachable", `no connection to ${url.host} within ${rules.connectMs / 1000} s`),
        ),
      rules.connectMs,
    );
    sent.once("socket", (socket) => socket.once("connect", () => clearTimeout(connecting)));
    sent.once("close", () => clearTimeout(connecting));
    sent.once("response", (response) => {
      sent.setTimeout(0);
      resolve(response);
    });
    sent.once("error", (error) => reject(refusal.failure ?? connectFailure(url, error, ask.signal)));
    sent.end();
  });
}

function connectFailure(url: URL, error: Error, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  if (error.name === "AttemptFailure") return error;
  const code = "code" in error ? ` (${String(error.code)})` : "";
  return passing(
    "SourceUnreachable",
    `${url.host} could not be reached: ${error.message || "connection failed"}${code}`,
    error,
  );
}

/** Resolves like the system does, but never hands an address to connect() that the rules refuse. */
function guardedLookup(url: URL, rules: RemoteRules, refusal: { failure?: AttemptFailure }): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error !== null) return callback(error, []);
      const allowed = found.filter((entry) => !isForbiddenAddress(entry.address, rulesFor(url, rules)));
      const first = allowed[0];
      if (first === undefined) {
        refusal.failure = addressRefused(url, found[0]?.address ?? "no address");
        return callback(refusal.failure, []);
      }
      return options.all === true ? callback(null, allowed) : callback(null, first.address, first.family);
    });
  };
}
