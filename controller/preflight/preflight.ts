/** The validating webhook: answers from watches of its own, so that every controller answers and not the leader alone. */

import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { HOSTS, MODELS } from "../../src/api/kinds.ts";
import { keyOf } from "../../src/api/names.ts";
import type { Match } from "../../src/fitness/catalog/match.ts";
import { limitConnections } from "../../src/http/connections.ts";
import { keepTrying, listenOn } from "../../src/http/listener.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { NODES, SECRETS } from "../../src/kube/kinds.ts";
import type { Secret } from "../../src/kube/objects.ts";
import type { KubeObject, ObjectRef } from "../../src/kube/types.ts";
import { type ReflectorOptions, startReflector } from "../../src/kube/watch/reflector.ts";
import { UNWATCHED } from "../../src/kube/watch/unwatched.ts";
import type { Clock, Log } from "../../src/ports.ts";
import { NODE_REPORTS, readReportedNode } from "../cache/nodes.ts";
import { createBodyReader } from "./bodies.ts";
import { type Preflight, preflight } from "./judge.ts";
import { answerTo, type PreflightMode, type Review, readReview, serviceOf } from "./review.ts";
import { filesOf } from "./rotation.ts";

export interface PreflightOptions {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly match: (name: string) => Match;
  readonly mode: PreflightMode;
  readonly hasFixedNodes: boolean;
  /** Nothing runs in pods: nodes are not watched. */
  readonly hostsOnly: boolean;
  readonly address: string;
  /** 0 takes a free one. */
  readonly port: number;
  readonly secret: ObjectRef;
  /** Called with its port once it listens. */
  readonly onListening?: ((port: number) => void) | undefined;
}

/** An object before and after: no object of the API server is larger than 1.5 MiB. */
const BODIES = { eachBytes: 4 * 1024 * 1024, allBytes: 32 * 1024 * 1024 };
const REQUEST_MS = 10_000;
/** All API servers may come from one address. */
const CONNECTIONS = { total: 256, perAddress: 256 };

const LISTEN_RETRY_MS = 1_000;
/** No longer is the first list waited for: without the right to it, no rollout would end. */
const FIRST_LIST_MS = 30_000;

export interface PreflightState {
  /** Why the webhook is not served; undefined while it is. */
  readonly notServed: () => string | undefined;
  /** The same, except where the Secret has no certificate, or cannot be listed: a leader must be able to come up and make it. */
  readonly trouble: () => string | undefined;
}

/** Listens once the Secret holds a certificate, and serves each new one from then on. Ends with the signal. */
export function startPreflight(options: PreflightOptions): PreflightState {
  const { log, clock } = options;
  const server = createServer(
    { requestTimeout: REQUEST_MS, headersTimeout: REQUEST_MS, handshakeTimeout: REQUEST_MS },
    createHandler(options, createJudge(options)),
  );
  limitConnections(server, CONNECTIONS);
  let at: "waiting" | "trying" | "listening" = "waiting";
  let failure = "";
  const startedMs = clock.monotonicMs();
  const secrets = startReflector<Secret>({
    ...options,
    kind: SECRETS,
    namespace: options.secret.namespace ?? "",
    fieldSelector: `metadata.name=${options.secret.name}`,
    onChange: (_, secret) => {
      if (!useCertificate(server, secret, log) || at !== "waiting") return;
      at = "trying";
      keepTrying(() => listenOn(server, options), options, {
        ...{ clock, log, what: "the preflight webhook", retryMs: LISTEN_RETRY_MS },
        onListening: (port) => {
          at = "listening";
          options.onListening?.(port);
        },
        onFailed: ({ message }) => {
          failure = `: ${message}`;
        },
      });
    },
  });
  const isListing = () => !secrets.isSynced() && clock.monotonicMs() - startedMs < FIRST_LIST_MS;
  const trouble = () => {
    if (at === "trying") return `the preflight webhook does not listen yet${failure}`;
    return isListing() ? "the preflight webhook has not listed its Secret yet" : undefined;
  };
  const notServed = () =>
    at === "waiting" ? "waiting for the certificate of the preflight webhook" : trouble();
  return { trouble, notServed };
}

/** False where there is none that can be used; what was served before stays. */
function useCertificate(server: Server, secret: Secret | undefined, log: Log): boolean {
  const { "tls.crt": cert, "tls.key": key } = filesOf(secret);
  if (cert === undefined || key === undefined) return false;
  try {
    server.setSecureContext({ cert, key });
    return true;
  } catch (err) {
    log.warn({ err }, "preflight: the certificate in the Secret cannot be used");
    return false;
  }
}

type Judge = (service: InferenceService) => Preflight;

function createJudge(options: PreflightOptions): Judge {
  const start = <T extends KubeObject>(
    rest: Pick<ReflectorOptions<T>, "kind" | "namespace" | "labelSelector">,
  ) => startReflector<T>({ ...options, ...rest, onChange: () => {} });
  const models = start({ kind: MODELS });
  const hosts = start({ kind: HOSTS });
  const nodes = options.hostsOnly ? UNWATCHED : start({ kind: NODES });
  const reports = options.hostsOnly ? UNWATCHED : start(NODE_REPORTS);
  return (service) => {
    if (![models, hosts, nodes, reports].every((one) => one.isSynced()))
      return { at: "unknown", why: "the controller has not listed Models, Hosts and Nodes yet" };
    const { namespace } = service.metadata;
    const modelOf = (name: string) => models.get(keyOf({ namespace, name }));
    const { modelRef, speculativeDecoding, loraAdapters = [] } = service.spec;
    const draftRef = speculativeDecoding?.draftModelRef;
    return preflight({
      service,
      model: modelOf(modelRef),
      draftModel: draftRef === undefined ? undefined : modelOf(draftRef),
      loraModels: loraAdapters.map((adapter) => modelOf(adapter.modelRef)),
      hosts: hosts.list(),
      nodes: nodes.list().map((node) => readReportedNode(node, reports)),
      match: options.match,
      hasFixedNodes: options.hasFixedNodes || options.hostsOnly,
    });
  };
}

/** Answers AdmissionReviews. An unforeseen failure refuses nothing. */
export function createHandler(
  options: Pick<PreflightOptions, "mode" | "log">,
  judge: Judge,
): RequestListener {
  const readBody = createBodyReader(BODIES);
  return (request, response) => {
    readBody(request)
      .catch(() => undefined)
      .then((text) => answer(request, response, text, options, judge))
      .catch((err: unknown) => {
        options.log.error({ err }, "preflight: cannot answer");
        response.destroy();
      });
  };
}

function answer(
  request: IncomingMessage,
  response: ServerResponse,
  text: string | undefined,
  { mode, log }: Pick<PreflightOptions, "mode" | "log">,
  judge: Judge,
): void {
  const review = text === undefined ? undefined : readReview(text);
  if (request.method !== "POST" || review === undefined) {
    response.writeHead(400, { "content-type": "text/plain; charset=utf-8" });
    response.end("send an AdmissionReview of admission.k8s.io/v1\n");
    return;
  }
  const verdict = verdictOn(review, mode, log, judge);
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify(answerTo(review.uid, mode, verdict)));
}

function verdictOn(review: Review, mode: PreflightMode, log: Log, judge: Judge): Preflight | undefined {
  try {
    const service = serviceOf(review);
    const verdict = service && judge(service);
    if (service !== undefined && verdict?.at === "nowhere") {
      const { namespace, name } = service.metadata;
      log.info({ service: `${namespace}/${name}`, mode }, `preflight: ${verdict.message}`);
    }
    return verdict;
  } catch (err) {
    log.error({ err, namespace: review.namespace }, "preflight: cannot judge a service; it is let through");
    return { at: "unknown", why: "the judgement failed" };
  }
}
