/** Serves llmfit's REST API about this machine, for the agent and for `metalbridge node`. */
import type { IncomingMessage } from "node:http";
import { readBodyText } from "../../src/http/body.ts";
import { isLoopback } from "../../src/http/loopback.ts";
import type { HttpResponse } from "../../src/http/routes.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { listenWithRetry } from "./server.ts";

/** The part of a request that the API uses. */
interface LlmfitRequest {
  readonly method: string;
  readonly url: string;
  readonly isLocal: boolean;
  readonly contentType: string;
  readonly body: string;
}

type LlmfitRest<Facts> = (request: LlmfitRequest, facts: Facts, nowMs: number) => HttpResponse;

export interface LlmfitOptions<Facts> {
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly address: string;
  /** 0 takes a free one, which is logged. */
  readonly port: number;
  /** Callers require it for addresses other than loopback. */
  readonly tokenFile?: string | undefined;
  /** Called for each request except those for health; concurrent requests share one call. */
  readonly facts: () => Promise<Facts>;
  /** Called once, at the first request. */
  readonly load: () => Promise<LlmfitRest<Facts>>;
}

const MAX_BODY_BYTES = 64 * 1024;

/** Returns at once; retries until it listens. */
export function serveLlmfit<Facts>(options: LlmfitOptions<Facts>): void {
  const { clock, log, signal, address, port, tokenFile, facts } = options;
  let loaded: Promise<LlmfitRest<Facts>> | undefined;
  const load = (): Promise<LlmfitRest<Facts>> => {
    loaded ??= options.load();
    loaded.catch(() => (loaded = undefined));
    return loaded;
  };
  let lastFacts: Facts | undefined;
  let reading: Promise<Facts> | undefined;
  const read = (): Promise<Facts> => {
    reading ??= facts()
      .then((found) => (lastFacts = found))
      .finally(() => (reading = undefined));
    return reading;
  };
  const otherwise = async (request: IncomingMessage): Promise<HttpResponse> => {
    const body = await readBodyText(request, MAX_BODY_BYTES);
    if (body === undefined) return { status: 413, body: "length limit exceeded" };
    const { method = "", url = "", headers, socket } = request;
    const isLocal = isLoopback(socket.remoteAddress ?? "");
    const sent = { method, url, isLocal, contentType: headers["content-type"] ?? "", body };
    // Health probes use the last facts: reading new ones may wait for a program that hangs.
    const cached = url === "/health" ? lastFacts : undefined;
    const [rest, current] = await Promise.all([load(), cached ?? read()]);
    return rest(sent, current, clock.nowMs());
  };
  listenWithRetry(
    { address, port, signal, routes: {}, otherwise, tokenFile },
    { clock, log, what: "llmfit's REST API" },
  );
}
