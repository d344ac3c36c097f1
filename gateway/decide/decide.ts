/** The decision about one request: who sends it, which model it asks for, and when it runs on which replica. */
import type { Priority } from "../../src/api/fields/shared.ts";
import { SECRET_TRANSPORT } from "../../src/api/group.ts";
import type { Clock } from "../../src/util/ports.ts";
import type { Authenticated, Authentication, Authenticator, RequestHeaders } from "../keys/authentication.ts";
import type { HeldBodies } from "../limits/bodies.ts";
import type { Admission } from "../limits/limits.ts";
import type { Models } from "../models/models.ts";
import type { ModelEndpoint, ServedModel } from "../models/served-model.ts";
import type { Share } from "../queue/fair-queue.ts";
import type { SlotResult } from "../queue/model-queue.ts";
import type { ModelQueues } from "../queue/queues.ts";
import type { Requests, StartResult } from "../requests.ts";
import { readTraceParent } from "../telemetry/span.ts";
import { encodeAssignment } from "./assignment.ts";
import {
  type Call,
  type CheckedRequest,
  DEFAULT_WAIT_SECONDS,
  INFERENCE_PATHS,
  promptPrefix,
  readCall,
  readPath,
  readWaitSeconds,
} from "./call.ts";
import type { Dialect, Refusal } from "./dialect.ts";
import { permissionsOf, resolveServedModel } from "./resolve.ts";

export interface Question extends CheckedRequest {
  /** x-request-id, which Envoy generates; unique. */
  readonly id: string;
  readonly headers: RequestHeaders;
  readonly bodyBytes: number;
  /** The body asks for a stream; undefined: it was not read. */
  readonly isStream: boolean | undefined;
  /** Aborted when Envoy closes the question before it is answered. */
  readonly signal: AbortSignal;
}

export interface Grant {
  /** Cluster of Envoy. */
  readonly cluster: string;
  /** Addresses to try, in order. */
  readonly addresses: readonly string[];
  /** The encoded `Assignment`, for the access log. */
  readonly ticket: string;
  /** Value of the authorization header for the engine. */
  readonly authorization: string | undefined;
  /** The engine is asked to close the connection after the response. */
  readonly closesConnection: boolean;
}

export type RequestDecision =
  | { readonly at: "granted"; readonly grant: Grant }
  | { readonly at: "refused"; readonly refusal: Refusal; readonly dialect: Dialect }
  | { readonly at: "left" };

type RefusedCaller = Extract<Authentication, { at: "refused" }>;

export interface DecisionPorts {
  readonly models: Models;
  readonly queues: ModelQueues;
  readonly requests: Requests;
  readonly authenticate: Authenticator["authenticate"];
  /** Bodies that Envoy reads after a question about their headers alone. */
  readonly bodies: HeldBodies;
  /** The bearer token that the engine of a service requires, or why it cannot be read. */
  readonly engineKey: (model: ServedModel) => Promise<string | undefined | Refusal>;
  /** The user behind a shared key, from a signed header. */
  readonly userOf: (headers: RequestHeaders) => string | undefined;
  /** TLS settings for replicas that serve HTTPS: a CA bundle, and a client certificate. */
  readonly upstreamTls: { readonly hasTrust: boolean; readonly hasCertificate: boolean };
  /** False while the gateway has no certificate for sealed replicas. */
  readonly hasKeyPair: () => boolean;
  readonly clock: Clock;
  readonly random: () => number;
}

/** Rank of each priority; higher ranks are served first. */
const PRIORITY_RANK: Readonly<Record<Priority, number>> = {
  critical: 4,
  high: 3,
  normal: 2,
  low: 1,
  batch: 0,
};
const RETRY_SECONDS = 5;
/** Official clients ignore a longer wait and retry immediately. */
const MAX_RETRY_SECONDS = 60;
const TOO_MANY_BYTES: Refusal = {
  code: "rate_limit_exceeded",
  message:
    "The large requests of this key in progress use all the memory that the gateway reserves for one key. Retry, send fewer large requests at a time, or add replicas of the model.",
  retryAfterSeconds: 1,
};
/** Keeps the requests of a conversation on one replica. */
const SESSION_HEADER = "x-session-id";

export class Decider {
  readonly #ports: DecisionPorts;

  constructor(ports: DecisionPorts) {
    this.#ports = ports;
  }

  /** Called before Envoy reads the body of a request. Undefined: it may read it. */
  async refusalByHeaders(
    question: Pick<Question, "id" | "method" | "path" | "contentEncoding" | "headers">,
  ): Promise<Extract<RequestDecision, { at: "refused" }> | undefined> {
    const read = readPath(question);
    if ("refusal" in read) return { at: "refused", ...read };
    const { dialect } = read;
    const authentication = await this.#ports.authenticate(question.headers);
    if (authentication.at === "refused")
      return { at: "refused", refusal: refusalOfCaller(authentication), dialect };
    const announced = text(question.headers["content-length"]);
    const bytes = announced === undefined ? undefined : Number(announced);
    const { bodies, clock } = this.#ports;
    if (bodies.take(question.id, authentication.caller.id, bytes, clock.monotonicMs())) return undefined;
    return { at: "refused", refusal: TOO_MANY_BYTES, dialect };
  }

  async decide(question: Question): Promise<RequestDecision> {
    const call = readCall(question);
    if ("refusal" in call) return { at: "refused", ...call };
    const refuse = (refusal: Refusal): RequestDecision => ({ at: "refused", refusal, dialect: call.dialect });
    const { authenticate, bodies, clock } = this.#ports;
    bodies.arrived(question.id, question.bodyBytes);
    const waitSeconds = readWaitSeconds(text(question.headers["x-request-deadline"]), clock.nowMs());
    if (typeof waitSeconds !== "number") return refuse(waitSeconds);
    const authentication = await authenticate(question.headers);
    if (authentication.at === "refused") return refuse(refusalOfCaller(authentication));
    const { caller } = authentication;
    const model = await this.#find(call, caller);
    if ("code" in model) return refuse(model);
    const engineKey = model.engineKey && (await this.#ports.engineKey(model));
    if (typeof engineKey === "object") return refuse(engineKey);
    const started = await this.#start(question, caller, model, waitSeconds);
    switch (started.at) {
      case "assigned":
        return { at: "granted", grant: grantOf(question, caller, model, started, engineKey) };
      case "left":
        return started;
      case "refused":
        return refuse(limitRefusal(started));
      default: {
        // The model may have changed while the request waited.
        const { models, queues } = this.#ports;
        const current = models.get(model.key) ?? { ...model, reason: "it was deleted" };
        const expectedSeconds = queues.get(model.key)?.expectedWaitSeconds() ?? 0;
        return refuse(slotRefusal(started, current, waitSeconds, expectedSeconds));
      }
    }
  }

  async #find(call: Call, caller: Authenticated): Promise<ServedModel | Refusal> {
    const { models, upstreamTls, hasKeyPair, random } = this.#ports;
    const model = await resolveServedModel(call, models, permissionsOf(models, caller), random);
    if ("code" in model) return model;
    if (model.tlsName !== undefined && !upstreamTls.hasTrust) {
      const message = `${model.key} serves HTTPS, and this gateway has no CA to verify it. Ask an administrator to start the gateway with --upstream-ca (gateway.upstream.caSecretName in the chart).`;
      return { code: "model_unavailable", message, service: model.key };
    }
    if (model.needsClientCertificate && !upstreamTls.hasCertificate) {
      const message = `${model.key} requires a client certificate, and this gateway has none. Ask an administrator to start the gateway with --upstream-cert and --upstream-key (gateway.upstream.tlsSecretName in the chart).`;
      return { code: "model_unavailable", message, service: model.key };
    }
    if (!hasKeyPair() && model.endpoints.length > 0 && model.endpoints.every(isSealed)) {
      const message = `${model.key} has only sealed replicas, and this gateway has no certificate for them. Ask an administrator to check the Secret ${SECRET_TRANSPORT}, which the controller creates, and the right of the gateway to watch it.`;
      return {
        code: "model_unavailable",
        message,
        retryAfterSeconds: RETRY_SECONDS,
        service: model.key,
      };
    }
    if (model.paths === undefined || model.paths.has(call.path)) return model;
    const message = `${call.path} is not supported by the engine of ${model.key} (${model.runtime}). It answers: ${[...model.paths].filter((path) => INFERENCE_PATHS.has(path)).join(", ")}.`;
    return { code: "unknown_path", message };
  }

  #start(
    { id, headers, bodyStart, isStream = false, signal }: Question,
    caller: Authenticated,
    model: ServedModel,
    waitSeconds: number,
  ): Promise<StartResult> {
    const { requests, userOf, clock } = this.#ports;
    const share: Share = {
      flow: caller.id,
      weight: caller.weight,
      priority: PRIORITY_RANK[caller.priority],
      user: userOf(headers),
    };
    const session = text(headers[SESSION_HEADER]);
    const prefix = session ?? promptPrefix(bodyStart);
    const affinity =
      session !== undefined || model.prefersPrefix ? prefix && `${caller.id}\0${prefix}` : undefined;
    const deadlineMs = clock.monotonicMs() + waitSeconds * 1_000;
    return requests.start({ id, caller, model, share, affinity, isStream, deadlineMs, signal });
  }
}

function isSealed({ fingerprints }: ModelEndpoint): boolean {
  return fingerprints !== undefined;
}

function grantOf(
  { headers, isStream }: Question,
  caller: Authenticated,
  { key, endpoints, connections, isAbsentBySpec }: ServedModel,
  { addresses, waitedMs }: Extract<SlotResult, { at: "assigned" }>,
  engineKey: string | undefined,
): Grant {
  const [address = ""] = addresses;
  const ticket = encodeAssignment({
    caller: caller.id,
    model: key,
    host: endpoints.find((one) => one.address === address)?.host ?? address,
    waitedMs,
    hasWoken: isAbsentBySpec,
    traceParent: readTraceParent(text(headers.traceparent)),
  });
  const authorization = engineKey && `Bearer ${engineKey}`;
  const closesConnection = connections === "untilStream" && isStream !== false;
  return { cluster: key, addresses, ticket, authorization, closesConnection };
}

export function refusalOfCaller({ reason, message }: RefusedCaller): Refusal {
  return reason === "unavailable"
    ? { code: "gateway_starting", message, retryAfterSeconds: RETRY_SECONDS }
    : { code: "invalid_api_key", message };
}

/** A budget is renewed after a day or a month, so clients must not retry automatically. */
function limitRefusal({ limit, message, retryAfterSeconds }: Extract<Admission, { at: "refused" }>): Refusal {
  return limit === "tokensPerDay" || limit === "tokensPerMonth"
    ? { code: "insufficient_quota", message }
    : { code: "rate_limit_exceeded", message, retryAfterSeconds };
}

function slotRefusal(
  slot: Exclude<SlotResult, { at: "assigned" | "left" }>,
  model: ServedModel,
  waitSeconds: number,
  expectedSeconds: number,
): Refusal {
  const retryAfterSeconds = Math.min(MAX_RETRY_SECONDS, Math.max(1, expectedSeconds));
  switch (slot.at) {
    case "full":
      return {
        service: model.key,
        code: "queue_full",
        message: `The queue of ${model.key} is full: ${slot.waiting} requests are waiting. Retry later, or add replicas.`,
        retryAfterSeconds,
      };
    case "timeout":
      return {
        // A caller who wants no long wait may find all replicas of a service busy that is well, or one that loads its model again.
        service:
          (model.state === "ready" || model.isAbsentBySpec) && waitSeconds < DEFAULT_WAIT_SECONDS
            ? undefined
            : model.key,
        code: "queue_timeout",
        message:
          model.state === "ready"
            ? `No replica of ${model.key} became free within ${waitSeconds} s; the request was at position ${slot.position} of its queue. Retry, or set x-request-deadline.`
            : `${model.key} did not become ready within ${waitSeconds} s: ${model.reason ?? "it has no ready replica"}.`,
        retryAfterSeconds,
      };
    case "off":
      return {
        // What its owner has stopped has not failed.
        service: model.isAbsentBySpec ? undefined : model.key,
        code: "model_unavailable",
        message: `${model.key} has no replicas: ${model.reason ?? "it was stopped"}. Its owner can see more with metalbridge describe isvc/${model.name} -n ${model.namespace}.`,
      };
    default:
      return slot satisfies never;
  }
}

function text(header: string | readonly string[] | undefined): string | undefined {
  return typeof header === "string" ? header : header?.[0];
}
