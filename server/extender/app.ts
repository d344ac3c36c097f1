/**
 * Answers the requests of schedulers. Every failure has a status code and a text, and no request can end the process. The port is one
 * of its own, because kube-scheduler sends no token, and the API answers no request without one.
 */
import { createServer as createHttpServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import { describeError, MetalbridgeError } from "../../src/api/errors.ts";
import type { ScoreWeights } from "../../src/capacity/score.ts";
import { limitConnections } from "../../src/http/connections.ts";
import { listenOn } from "../../src/http/listener.ts";
import { observeValue } from "../../src/http/metrics/histogram.ts";
import { setBounded } from "../../src/util/bounded-map.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { followTls, readTls, type TlsFiles } from "./tls-files.ts";
import { type ExtenderNeed, mismatchOf, scoreCandidates } from "./decide.ts";
import type { ExtenderCluster } from "./facts.ts";
import { EXTENDER_VERBS, type ExtenderCounters, type ExtenderVerb } from "./metrics.ts";
import { type Candidates, type ExtenderArgs, type ExtenderPod, filterError, filterResult, priorityList, readArgs } from "./protocol.ts";

/** 5,000 Nodes of 20 KB. */
const MAX_BODY_BYTES = 128 * 1024 ** 2;
/** Sum of what has arrived of the bodies of all requests in flight. */
const MAX_HELD_BYTES = 192 * 1024 ** 2;
/** The documented httpTimeout, after which the scheduler has stopped waiting. */
const BUDGET_MS = 1_000;
/** Pods whose last log line is remembered, because a pod that does not fit is retried many times. */
const MAX_LOGGED = 1_000;
const SHOWN_NODES = 3;
/** A scheduler needs few connections; all schedulers of a cluster may share one address. */
const CONNECTIONS = { total: 128, perAddress: 64 };
const REQUEST_MS = 10_000;

export interface AppOptions {
  readonly cluster: ExtenderCluster;
  readonly weights: ScoreWeights;
  readonly counters: ExtenderCounters;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly log: Log;
  readonly maxHeldBytes?: number;
}

export interface ListenForSchedulers extends AppOptions {
  readonly address: string;
  readonly port: number;
  /** Undefined: plain HTTP. */
  readonly files: TlsFiles | undefined;
  /** Ends the connections. */
  readonly signal: AbortSignal;
}

/** Resolves once it listens. `close` resolves when the requests in flight are answered, or after the budget of one. */
export async function listenForSchedulers({
  address,
  port,
  files,
  log,
  signal,
  ...options
}: ListenForSchedulers) {
  const app = createApp({ ...options, log });
  const limits = { requestTimeout: REQUEST_MS, headersTimeout: REQUEST_MS };
  const server =
    files === undefined
      ? createHttpServer(limits, app)
      : createHttpsServer({ ...limits, handshakeTimeout: REQUEST_MS, ...(await readTls(files)) }, app);
  limitConnections(server, CONNECTIONS);
  if (files !== undefined && "setSecureContext" in server) followTls(server, files, { log, signal });
  const bound = await listenOn(server, { address, port, signal });
  const close = async (): Promise<void> => {
    server.closeIdleConnections();
    const late = setTimeout(() => server.closeAllConnections(), BUDGET_MS);
    await new Promise((resolve) => server.close(resolve));
    clearTimeout(late);
  };
  return { port: bound, close };
}

interface Answer {
  readonly status: number;
  readonly body: Buffer | string;
}

/** For the count of requests only: a scheduler has stopped waiting, or has been stopped. */
const HUNG_UP: Answer = { status: 499, body: "" };

export function createApp(options: AppOptions): RequestListener {
  const { counters, clock, log, maxHeldBytes = MAX_HELD_BYTES } = options;
  const decide = createDecider(options);
  let heldBytes = 0;
  const answer = async (
    request: IncomingMessage,
    verb: ExtenderVerb,
    isLate: () => boolean,
  ): Promise<Answer> => {
    const length = lengthOf(request);
    const left = setTimeout(() => request.destroy(), BUDGET_MS);
    let arrived = 0;
    // What is only announced takes no memory.
    const hold = (bytes: number): void => {
      arrived += bytes;
      heldBytes += bytes;
      if (heldBytes > maxHeldBytes) throw new Busy(heldBytes);
    };
    try {
      const body = await readBody(request, length, hold);
      return { status: 200, body: decide(verb, readArgs(body), isLate) };
    } finally {
      clearTimeout(left);
      heldBytes -= arrived;
    }
  };
  return (request, response) => {
    const startedMs = clock.monotonicMs();
    const verb = EXTENDER_VERBS.find((one) => request.url === `/${one}`);
    if (verb === undefined || request.method !== "POST")
      return send(response, {
        status: verb === undefined ? 404 : 405,
        body: "POST /filter or /prioritize\n",
      });
    const isLate = () => clock.monotonicMs() - startedMs > BUDGET_MS;
    void answer(request, verb, isLate)
      .catch((error: unknown): Answer => {
        if (error instanceof Busy)
          return { status: 503, body: `ExtenderRequestTooLarge: ${error.message}\n` };
        if (error instanceof MetalbridgeError) {
          const status = error.code === "ExtenderRequestTooLarge" ? 413 : 400;
          return { status, body: `${error.code}: ${describeError(error)}\n` };
        }
        if (request.destroyed && !request.complete) return HUNG_UP;
        log.error({ err: error, verb }, "a request failed");
        return { status: 500, body: "internal error\n" };
      })
      .then((found) => {
        send(response, found);
        counters.requests.add({ verb, code: String(found.status) });
        observeValue(counters.seconds[verb], (clock.monotonicMs() - startedMs) / 1_000);
      });
  };
}

function send(response: ServerResponse, { status, body }: Answer): void {
  const type = status === 200 ? "application/json" : "text/plain; charset=utf-8";
  // What is left of a body that was refused would be read as the next request.
  const close = status === 200 ? {} : { connection: "close" };
  response.writeHead(status, { "content-type": type, "content-length": Buffer.byteLength(body), ...close });
  response.end(body);
}

/** kube-scheduler states the length, so that the body needs no more memory than it has bytes. Throws ExtenderRequestInvalid or ExtenderRequestTooLarge. */
function lengthOf(request: IncomingMessage): number {
  const length = Number(request.headers["content-length"] ?? Number.NaN);
  if (!Number.isSafeInteger(length))
    throw new MetalbridgeError("ExtenderRequestInvalid", "the request has no Content-Length");
  if (length > MAX_BODY_BYTES)
    throw new MetalbridgeError(
      "ExtenderRequestTooLarge",
      `the request has ${length} bytes, the limit is ${MAX_BODY_BYTES}`,
    );
  return length;
}

/** The system gives the buffer memory as it is filled. */
async function readBody(
  request: IncomingMessage,
  length: number,
  hold: (bytes: number) => void,
): Promise<Buffer> {
  const body = Buffer.allocUnsafeSlow(length);
  let at = 0;
  const chunks = request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>;
  for await (const chunk of chunks) {
    hold(chunk.length);
    at += chunk.copy(body, at);
  }
  return body;
}

class Busy extends Error {
  constructor(heldBytes: number) {
    super(`other requests hold ${heldBytes} bytes`);
  }
}

function createDecider({ cluster, weights, counters, log }: AppOptions) {
  const logged = new Map<string, string>();
  /** Logs a decision once for a pod, and again if it changes. */
  const explain = (verb: ExtenderVerb, { metadata: { uid, namespace, name } }: ExtenderPod, data: object) => {
    const text = JSON.stringify(data);
    const key = `${verb} ${uid}`;
    if (logged.get(key) === text) return;
    setBounded(logged, key, text, MAX_LOGGED);
    log.info({ pod: `${namespace}/${name}`, ...data }, verb === "filter" ? "nodes rejected" : "nodes scored");
  };
  const filter = (pod: ExtenderPod, { names }: Candidates, need: ExtenderNeed) => {
    const failed = new Map<string, string>();
    const reasons: Record<string, number> = {};
    let unknown = 0;
    for (const name of names) {
      const facts = cluster.factsOf(name);
      if (facts === undefined) unknown += 1;
      const why = facts && mismatchOf(need, facts);
      if (why === undefined) continue;
      failed.set(name, why);
      reasons[why] = (reasons[why] ?? 0) + 1;
    }
    const rejected = failed.size;
    for (const [result, count] of Object.entries({
      unknown,
      rejected,
      passed: names.length - unknown - rejected,
    }))
      counters.candidates.add({ result }, count);
    if (rejected > 0) explain("filter", pod, { model: need.model, nodes: names.length, reasons });
    return failed;
  };
  const prioritize = (pod: ExtenderPod, { names }: Candidates, need: ExtenderNeed) => {
    const { scores, why } = scoreCandidates(names, need, cluster.factsOf, weights);
    const best = bestOf(scores).map((index) => ({
      node: names[index],
      score: scores[index],
      why: why(index),
    }));
    explain("prioritize", pod, { model: need.model, nodes: names.length, best });
    return scores;
  };
  return (verb: ExtenderVerb, { pod, candidates }: ExtenderArgs, isLate: () => boolean): Buffer => {
    if (candidates === undefined) return verb === "filter" ? filterError(NO_NODES) : priorityList([], []);
    const need = isLate() ? undefined : cluster.needOf(pod);
    if (verb === "filter")
      return filterResult(candidates, need === undefined ? new Map() : filter(pod, candidates, need));
    return priorityList(candidates.names, need === undefined ? [] : prioritize(pod, candidates, need));
  };
}

const NO_NODES =
  "the request has neither NodeNames nor Nodes: set nodeCacheCapable: true for this extender in the KubeSchedulerConfiguration";

/** Indexes of the highest scores, the highest first. */
function bestOf(scores: readonly number[]): number[] {
  const best: number[] = [];
  for (const [index, score] of scores.entries()) {
    if (best.length === SHOWN_NODES && score <= (scores[best.at(-1) ?? 0] ?? 0)) continue;
    best.push(index);
    best.sort((a, b) => (scores[b] ?? 0) - (scores[a] ?? 0) || a - b);
    best.length = Math.min(best.length, SHOWN_NODES);
  }
  return best;
}
