/**
 * Answers the requests of schedulers. Every failure has a status code and a text, and no request can end the process. The port is one
 * of its own, because kube-scheduler sends no token, and the API answers no request without one.
 */
import type { IncomingMessage } from "node:http";
import type { FastifyInstance, FastifyReply } from "fastify";
import { describeError, MetalbridgeError } from "../../src/api/errors.ts";
import type { ScoreWeights } from "../../src/capacity/score.ts";
import { observeValue } from "../../src/http/metrics/histogram.ts";
import { setBounded } from "../../src/util/bounded-map.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { createHttpApp, type HttpAppOptions } from "../http/app.ts";
import { type ExtenderNeed, mismatchOf, scoreCandidates } from "./decide.ts";
import type { ExtenderCluster } from "./facts.ts";
import { EXTENDER_VERBS, type ExtenderCounters, type ExtenderVerb } from "./metrics.ts";
import {
  type Candidates,
  type ExtenderArgs,
  type ExtenderPod,
  filterError,
  filterResult,
  priorityList,
  readArgs,
} from "./protocol.ts";

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
/** An idle connection is kept open for this long. */
const IDLE_MS = 5_000;

export interface ExtenderAppOptions {
  readonly cluster: ExtenderCluster;
  readonly weights: ScoreWeights;
  readonly counters: ExtenderCounters;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly log: Log;
  readonly maxHeldBytes?: number | undefined;
  readonly tls?: HttpAppOptions["tls"];
}

interface Answer {
  readonly status: number;
  readonly body: Buffer | string;
}

/** For the count of requests only: a scheduler has stopped waiting, or has been stopped. */
const HUNG_UP: Answer = { status: 499, body: "" };

/** The caller starts listening. Closing the app ends when the requests in flight are answered, or after the budget of one. */
export function createExtenderApp(options: ExtenderAppOptions): FastifyInstance {
  const { counters, clock, log, tls } = options;
  const app = createHttpApp({
    requestTimeout: REQUEST_MS,
    keepAliveTimeout: IDLE_MS,
    return503OnClosing: false,
    server: { headersTimeout: REQUEST_MS },
    connections: CONNECTIONS,
    tls,
  });
  app.addHook("preClose", async () => {
    setTimeout(() => app.server.closeAllConnections(), BUDGET_MS).unref();
  });
  // The routes read the bodies, within the limits of all requests together.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, _payload, done) => done(null));
  app.setNotFoundHandler(({ url }, reply) => {
    const isRoute = EXTENDER_VERBS.some((verb) => url === `/${verb}`);
    return send(reply, { status: isRoute ? 405 : 404, body: "POST /filter or /prioritize\n" });
  });
  const answer = createAnswer(options);
  for (const verb of EXTENDER_VERBS)
    app.post(`/${verb}`, async ({ raw }, reply) => {
      const startedMs = clock.monotonicMs();
      const isLate = () => clock.monotonicMs() - startedMs > BUDGET_MS;
      const found = await answer(raw, verb, isLate).catch((error: unknown) => refusalOf(error, raw, log));
      counters.requests.add({ verb, code: String(found.status) });
      observeValue(counters.seconds[verb], (clock.monotonicMs() - startedMs) / 1_000);
      return send(reply, found);
    });
  return app;
}

function createAnswer({ maxHeldBytes = MAX_HELD_BYTES, ...options }: ExtenderAppOptions) {
  const decide = createDecider(options);
  let heldBytes = 0;
  return async (request: IncomingMessage, verb: ExtenderVerb, isLate: () => boolean): Promise<Answer> => {
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
}

function refusalOf(error: unknown, request: IncomingMessage, log: Log): Answer {
  if (error instanceof Busy) return { status: 503, body: `ExtenderRequestTooLarge: ${error.message}\n` };
  if (error instanceof MetalbridgeError) {
    const status = error.code === "ExtenderRequestTooLarge" ? 413 : 400;
    return { status, body: `${error.code}: ${describeError(error)}\n` };
  }
  if (request.destroyed && !request.complete) return HUNG_UP;
  log.error({ err: error, url: request.url }, "a request failed");
  return { status: 500, body: "internal error\n" };
}

function send(reply: FastifyReply, { status, body }: Answer): FastifyReply {
  // What is left of a body that was refused would be read as the next request.
  if (status !== 200) reply.header("connection", "close");
  const type = status === 200 ? "application/json" : "text/plain; charset=utf-8";
  return reply.code(status).type(type).send(body);
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

function createDecider({ cluster, weights, counters, log }: ExtenderAppOptions) {
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
