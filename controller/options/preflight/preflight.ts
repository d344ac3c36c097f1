/** The validating webhook. It uses separate watches, so that every controller serves it, not only the leader. */

import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { BackendRuntime } from "../../../src/api/backend-runtime.ts";
import { describeError } from "../../../src/api/errors.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { BACKEND_RUNTIMES } from "../../../src/api/kinds.ts";
import type { BackendRevision } from "../../../src/capacity/backend.ts";
import type { Fitness } from "../../../src/capacity/fitness.ts";
import { INFORMERS } from "../../../src/cluster/informers.ts";
import { readReportedNode } from "../../../src/cluster/nodes.ts";
import type { KubeConnection } from "../../../src/kube/client/connect.ts";
import { explainFailure } from "../../../src/kube/errors.ts";
import { SECRETS } from "../../../src/kube/kinds.ts";
import type { ApiFailure, KubeObject, ObjectRef, Reflector } from "../../../src/kube/types.ts";
import { type ReflectorOptions, startReflector, UNWATCHED } from "../../../src/kube/watch/reflector.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import { createCertifiedListener } from "../../frame/certificates/listener.ts";
import { namedModels } from "../../frame/service/path.ts";
import { createBodyReader } from "./bodies.ts";
import { type Preflight, preflightService } from "./judge.ts";
import { admissionResponse, type PreflightMode, type Review, readReview, serviceOf } from "./review.ts";

export interface PreflightOptions {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Without fitness, nodes are not judged, and hosts only by their capacity. */
  readonly fitness: Fitness | undefined;
  readonly mode: PreflightMode;
  readonly hasFixedNodes: boolean;
  /** True if nothing runs in pods, so nodes are not watched. */
  readonly hostsOnly: boolean;
  readonly address: string;
  /** 0 takes a free one. */
  readonly port: number;
  readonly secret: ObjectRef;
  /** Called with its port once it listens. */
  readonly onListening?: ((port: number) => void) | undefined;
}

/** Enough for an object before and after a change. Objects of the API server are at most 1.5 MiB. */
const BODIES = { eachBytes: 4 * 1024 * 1024, allBytes: 32 * 1024 * 1024 };

const WHAT = "the preflight webhook";
/** Maximum wait for the first lists. Without permission for one of them, a rollout of the controller would otherwise never finish. */
const FIRST_LISTS_MS = 30_000;
/** Time for kube-proxy to route API servers to other pods. */
const DRAIN_MS = 5_000;

export interface PreflightState {
  /** Reasons why services are stored unchecked, one line each; empty while they are checked. */
  readonly notServed: () => readonly string[];
  /** Like `notServed`, without a missing certificate or a list without permission, because a leader must be able to start. */
  readonly failures: () => readonly string[];
  /** Resolves once the webhook has drained after the signal and has stopped serving and watching. */
  readonly ended: Promise<void>;
}

/**
 * Listens once the Secret has a certificate, and uses each new certificate. After the signal it drains: for some seconds it still
 * responds, from watches that stay open, and closes each connection with its next response.
 */
export function startPreflight(options: PreflightOptions): PreflightState {
  const serving = new AbortController();
  const lists = createLists({ ...options, signal: serving.signal });
  const answer = createHandler(options, createJudge(options, lists));
  const listener = createCertifiedListener({
    ...options,
    handle: (request, response) => {
      if (options.signal.aborted) response.setHeader("connection", "close");
      answer(request, response);
    },
    what: WHAT,
    signal: serving.signal,
  });
  const { at, failure, onSecret } = listener;
  const { name, namespace = "" } = options.secret;
  lists.start(
    "its Secret",
    { kind: SECRETS, namespace, fieldSelector: `metadata.name=${name}` },
    (_, secret) => onSecret(secret),
  );
  const isWaiting = waitForLists(options, lists);
  const notListening = () => (at() === "trying" ? [`${WHAT} does not listen yet${failure()}`] : []);
  return {
    failures: () => [...notListening(), ...(isWaiting() ? lists.missing() : [])],
    notServed: () => [
      ...(at() === "waiting" ? ["waiting for the certificate of the preflight webhook"] : notListening()),
      ...lists.missing(),
    ],
    ended: whenDrained(options, serving, () => at() === "listening"),
  };
}

/** Returns a function that is true while the pod waits for the lists. Lists that are missing at the end are logged. */
function waitForLists({ clock, log, signal }: PreflightOptions, lists: Lists): () => boolean {
  const startedMs = clock.monotonicMs();
  const cancel = clock.after(FIRST_LISTS_MS, () => {
    const missing = lists.missing();
    if (missing.length > 0)
      log.warn({ missing }, "preflight: services are stored unjudged until these lists are complete");
  });
  signal.addEventListener("abort", cancel, { once: true });
  return () => clock.monotonicMs() - startedMs < FIRST_LISTS_MS;
}

/** Stops serving after the signal and the drain time, or immediately if the webhook does not listen. */
function whenDrained(
  { clock, signal }: PreflightOptions,
  serving: AbortController,
  isListening: () => boolean,
): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      serving.abort();
      resolve();
    };
    const drain = () => {
      if (isListening()) clock.after(DRAIN_MS, end);
      else end();
    };
    if (signal.aborted) drain();
    else signal.addEventListener("abort", drain, { once: true });
  });
}

type Judge = (service: InferenceService) => Preflight;

function createJudge({ hostsOnly, fitness, hasFixedNodes }: PreflightOptions, lists: Lists): Judge {
  const models = lists.start("Models", INFORMERS.models);
  const hosts = lists.start("Hosts", INFORMERS.hosts);
  const backends = lists.start("BackendRuntimes", { kind: BACKEND_RUNTIMES });
  const readsNodes = !hostsOnly && fitness !== undefined;
  const nodes = readsNodes ? lists.start("Nodes", INFORMERS.nodes) : UNWATCHED;
  const reports = readsNodes ? lists.start("reports of nodes", INFORMERS.reports) : UNWATCHED;
  return (service) => {
    if (![models, hosts, nodes, reports].every((one) => one.isSynced()))
      return { at: "unknown", why: "the controller has not listed Models, Hosts and Nodes yet" };
    if (service.spec.backendRuntime !== undefined && !backends.isSynced())
      return { at: "unknown", why: "the controller has not listed BackendRuntimes yet" };
    return preflightService({
      service,
      ...namedModels(models, service),
      backend: namedBackend(backends, service),
      hosts: hosts.list(),
      nodes: hostsOnly
        ? []
        : fitness &&
          nodes.list().map((node) => ({ node, read: () => readReportedNode(fitness, node, reports) })),
      fitness,
      hasFixedNodes: hasFixedNodes || hostsOnly,
    });
  };
}

/** The current content, because the service would begin with it. */
function namedBackend(
  backends: Pick<Reflector<BackendRuntime>, "get">,
  { spec: { backendRuntime } }: InferenceService,
): BackendRevision | undefined {
  const found = backendRuntime && backends.get(backendRuntime.name);
  return found && { name: found.metadata.name, spec: found.spec };
}

/** Responds to AdmissionReviews. An unexpected failure refuses nothing. */
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
  response.end(JSON.stringify(admissionResponse(review.uid, mode, verdict)));
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

type Shared = Pick<ReflectorOptions<KubeObject>, "connection" | "clock" | "log" | "signal">;
type Selected<T extends KubeObject> = Pick<
  ReflectorOptions<T>,
  "kind" | "namespace" | "labelSelector" | "fieldSelector"
>;

/** The lists that the webhook reads, and the reasons why some are not complete yet. */
interface Lists {
  /** Starts a list. `name` is for messages. */
  readonly start: <T extends KubeObject>(
    name: string,
    selected: Selected<T>,
    onChange?: ReflectorOptions<T>["onChange"],
  ) => Reflector<T>;
  /** One sentence for each list that has never been complete. */
  readonly missing: () => readonly string[];
}

function createLists({ connection, clock, log, signal }: Shared): Lists {
  const failures = new Map<string, ApiFailure | undefined>();
  return {
    start: (name, selected, onChange = () => {}) => {
      failures.set(name, undefined);
      return startReflector({
        ...selected,
        connection,
        clock,
        log,
        signal,
        onChange,
        onSynced: () => failures.delete(name),
        onFailure: (failure) => {
          if (failures.has(name)) failures.set(name, failure);
        },
      });
    },
    missing: () =>
      [...failures].map(([name, failure]) => {
        const detail = failure === undefined ? "" : `: ${describeError(explainFailure(failure))}`;
        return `the preflight webhook has not listed ${name} yet${detail}`;
      }),
  };
}
