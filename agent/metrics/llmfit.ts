/** llmfit's REST API about this machine: the one listener of the agent and of `metalbridge node`. */
import type { IncomingMessage } from "node:http";
import type { CatalogRecord } from "../../fitness/catalog/record.ts";
import { createLlmfitRest, type LlmfitRest, type RestFacts } from "../../fitness/llmfit/rest/rest.ts";
import { readBodyText } from "../../src/http/body.ts";
import type { HttpResponse } from "../../src/http/listener.ts";
import { isLoopback } from "../../src/http/loopback.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { listenWithRetry } from "./server.ts";

export interface LlmfitOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly address: string;
  /** 0 takes a free one, which is logged. */
  readonly port: number;
  /** Required by the callers for addresses that strangers reach. */
  readonly tokenFile?: string | undefined;
  /** Asked for each request but those for health; once for requests at the same time. */
  readonly facts: () => Promise<RestFacts>;
  /** Asked for once, at the first request. */
  readonly records: () => Promise<readonly CatalogRecord[]>;
}

const MOST_BODY_BYTES = 64 * 1024;

/** Returns at once; retries until it listens. */
export function serveLlmfit(options: LlmfitOptions): void {
  const { clock, log, signal, address, port, tokenFile, facts } = options;
  let loaded: Promise<LlmfitRest> | undefined;
  const load = (): Promise<LlmfitRest> => {
    loaded ??= options.records().then(createLlmfitRest);
    loaded.catch(() => (loaded = undefined));
    return loaded;
  };
  let known: RestFacts | undefined;
  let reading: Promise<RestFacts> | undefined;
  const read = (): Promise<RestFacts> => {
    reading ??= facts()
      .then((found) => (known = found))
      .finally(() => (reading = undefined));
    return reading;
  };
  const otherwise = async (request: IncomingMessage): Promise<HttpResponse> => {
    const body = await readBodyText(request, MOST_BODY_BYTES);
    if (body === undefined) return { status: 413, body: "length limit exceeded" };
    const { method = "", url = "", headers, socket } = request;
    const isLocal = isLoopback(socket.remoteAddress ?? "");
    const sent = { method, url, isLocal, contentType: headers["content-type"] ?? "", body };
    // A probe waits no second for a program on this machine that hangs.
    const found = url === "/health" ? known : undefined;
    const [rest, seen] = await Promise.all([load(), found ?? read()]);
    return rest(sent, seen, clock.nowMs());
  };
  const token = tokenFile === undefined ? {} : { tokenFile };
  listenWithRetry(
    { address, port, signal, routes: {}, otherwise, ...token },
    { clock, log, what: "llmfit's REST API" },
  );
}
