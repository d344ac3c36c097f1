/** A service as the gateway sees it: the addresses of its replicas, their slots, and its state. Pure. */
import { isConditionTrue } from "../../src/api/conditions.ts";
import type { Mode } from "../../src/api/engine-settings.ts";
import { type ErrorCode, errorCatalog } from "../../src/api/errors.ts";
import { LABEL_HOST, LABEL_SERVICE } from "../../src/api/group.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { modelNamesOf } from "../../src/api/inference-service/roles.ts";
import { keyOf } from "../../src/api/names.ts";
import { effectiveSpec } from "../../src/capacity/effective-spec.ts";
import { ENGINES } from "../../src/engines/registry.ts";
import type { EndpointSlice } from "../../src/kube/objects.ts";
import { fingerprintsOf, readFingerprints } from "./sealed.ts";

export interface ModelEndpoint {
  /** `ip:port`, as Envoy names a host of a cluster. */
  readonly address: string;
  readonly ip: string;
  readonly port: number;
  /** Host or node, or the address if neither is known. */
  readonly host: string;
  /** Certificates that the host of a sealed replica may present. Undefined: the replica is not sealed. */
  readonly fingerprints?: readonly string[] | undefined;
}

/**
 * ready: at least one replica is ready. starting: replicas are expected. idle: a request wakes it. off: no replicas are expected,
 * because the service is stopped or its objects need a correction.
 */
export type ServedState = "ready" | "starting" | "idle" | "off";

/**
 * `kept`: an idle connection stays open for at least 5 s. `untilStream`: the same, but after a streamed response the engine closes
 * it, and announces that only to a client that wants it closed. `single`: each request needs its own.
 */
export type EngineConnections = "kept" | "untilStream" | "single";

export interface ServedModel {
  /** `namespace/name`. */
  readonly key: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string | undefined;
  /** As its Model states it, else of the service. */
  readonly createdAt: string;
  /** As its Model states it, else the namespace. */
  readonly ownedBy: string;
  readonly mode: Mode;
  /** Names that select an adapter of the service. */
  readonly adapters: ReadonlySet<string>;
  /** Context of one request in tokens, if the service sets it. */
  readonly contextLength: number | undefined;
  /** Concurrent requests of one replica. */
  readonly slots: number;
  /** Paths that the engine serves; undefined if its program determines them. */
  readonly paths: ReadonlySet<string> | undefined;
  readonly runtime: string | undefined;
  /** When the engine closes a connection. */
  readonly connections: EngineConnections;
  /** Time without a result for any client, after which the engine stops a canceled request that has no response yet. */
  readonly stopsAfterMs: number;
  readonly endpoints: readonly ModelEndpoint[];
  /** Certificates of the hosts of all sealed replicas, whether ready or not. */
  readonly fingerprints: readonly string[];
  readonly state: ServedState;
  /** Why no replica is ready, for the client. */
  readonly reason: string | undefined;
  /** No replica is ready because the spec wants none now: it is suspended, has 0 replicas, or was unloaded by spec.idle. No outage. */
  readonly isAbsentBySpec: boolean;
  /** Requests with the same prompt prefix prefer the same replica. */
  readonly prefersPrefix: boolean;
  /** Its replicas are unloaded while there are no requests. */
  readonly isIdleCapable: boolean;
  /** DNS name in the certificate of its replicas, if they serve HTTPS. */
  readonly tlsName: string | undefined;
  readonly needsClientCertificate: boolean;
  /** The Secret in its namespace, and the key in that Secret, with the API key of the engine. */
  readonly engineKey: { readonly secret: string; readonly key: string } | undefined;
}

/** Default slots of engines with continuous batching. */
const BATCHED_SLOTS = 256;
const BATCHING: ReadonlySet<string> = new Set(["vllm", "sglang", "tgi", "tensorrt-llm"]);
/** By runtime: a test shows it for llama-server, the others have web servers of Python that keep idle connections. The rest is not known. */
const CONNECTIONS: Readonly<Record<string, EngineConnections>> = {
  llamacpp: "untilStream",
  vllm: "kept",
  sglang: "kept",
  tgi: "kept",
  "tensorrt-llm": "kept",
};
/**
 * By runtime. llama-server looks for the client of a request each time it has sent nothing to anyone for a second, then finishes a
 * step; a test shows it. The others look at once, or it is not known.
 */
const STOPS_AFTER_MS: Readonly<Record<string, number>> = { llamacpp: 1_100 };
/** Paths of each engine, one set for all services on it; none for programs that determine them. */
const PATHS: ReadonlyMap<string, ReadonlySet<string>> = new Map(
  ENGINES.filter(({ apiPaths }) => apiPaths.length > 0).map((one) => [one.runtime, new Set(one.apiPaths)]),
);
/** For programs with an unknown number of slots: protects them only from floods. */
const UNKNOWN_SLOTS = 32;

export function servedModel(service: InferenceService, slices: readonly EndpointSlice[]): ServedModel {
  const { metadata, spec, status } = service;
  const { namespace = "default", name, creationTimestamp = "" } = metadata;
  const runtime = status?.runtime ?? spec.runtime;
  const effective = effectiveSpec(service, runtime);
  const endpoints = slices.flatMap(readyEndpoints);
  return {
    key: keyOf({ namespace, name }),
    namespace,
    name,
    uid: metadata.uid,
    createdAt: status?.model?.createdAt ?? creationTimestamp,
    ownedBy: status?.model?.ownedBy ?? namespace,
    mode: status?.mode ?? spec.mode ?? "chat",
    adapters: new Set(modelNamesOf(spec).adapters.map((adapter) => adapter.name)),
    contextLength: contextOf(effective),
    slots: slotsOf(effective, runtime),
    paths: PATHS.get(runtime ?? ""),
    runtime,
    connections: connectionsOf(runtime, slices),
    stopsAfterMs: STOPS_AFTER_MS[runtime ?? ""] ?? 0,
    endpoints,
    fingerprints: fingerprintsOf(slices),
    ...stateOf(service, endpoints),
    prefersPrefix: spec.endpoint.balancing === "PrefixAffinity",
    isIdleCapable: spec.idle !== undefined,
    tlsName: spec.endpoint.tls && `${name}.${namespace}.svc`,
    needsClientCertificate: spec.endpoint.tls?.clientCASecretRef !== undefined,
    engineKey: spec.auth && { secret: spec.auth.secretRef.name, key: spec.auth.key },
  };
}

/** The key of the service that a slice belongs to. */
export function serviceOfSlice({ metadata }: EndpointSlice): string | undefined {
  const name = metadata.labels?.[LABEL_SERVICE];
  return name === undefined ? undefined : keyOf({ namespace: metadata.namespace, name });
}

/** The gate of a sealed replica keeps connections for each engine. */
function connectionsOf(runtime: string | undefined, slices: readonly EndpointSlice[]): EngineConnections {
  const isSealed = slices.length > 0 && slices.every((slice) => readFingerprints(slice) !== undefined);
  return isSealed ? "kept" : (CONNECTIONS[runtime ?? ""] ?? "single");
}

/** Without those of a slice whose annotation is malformed. */
export function readyEndpoints(slice: EndpointSlice): ModelEndpoint[] {
  const { metadata, endpoints, ports } = slice;
  const port = ports?.[0]?.port;
  const fingerprints = readFingerprints(slice);
  if (port === undefined || fingerprints?.length === 0) return [];
  return (endpoints ?? []).flatMap(({ addresses, conditions, nodeName }) => {
    const [ip] = addresses;
    if (ip === undefined || conditions?.ready === false) return [];
    const address = ip.includes(":") ? `[${ip}]:${port}` : `${ip}:${port}`;
    return [{ address, ip, port, host: nodeName ?? metadata.labels?.[LABEL_HOST] ?? ip, fingerprints }];
  });
}

function stateOf(
  { spec, status }: InferenceService,
  endpoints: readonly ModelEndpoint[],
): Pick<ServedModel, "state" | "reason" | "isAbsentBySpec"> {
  if (endpoints.length > 0) return { state: "ready", reason: undefined, isAbsentBySpec: false };
  const { phase, reason, conditions, idle } = status ?? {};
  if (idle?.state === "Idle")
    return { state: "idle", reason: "it is idle and was not woken", isAbsentBySpec: true };
  if (spec.suspend || spec.replicas === 0 || phase === "Stopped" || phase === "Suspended")
    return { state: "off", reason: `it is ${(phase ?? "Stopped").toLowerCase()}`, isAbsentBySpec: true };
  const isAbsentBySpec = idle?.state === "Waking";
  if (phase === undefined)
    return { state: "starting", reason: "no controller has processed it yet", isAbsentBySpec };
  // The message may name objects that the client cannot read.
  const cause = reason !== undefined && reason in errorCatalog ? errorCatalog[reason as ErrorCode].what : "";
  const why = `its phase is ${phase}: ${cause === "" ? "" : `${reason}: ${cause}`}`.replace(/[:. ]+$/, "");
  // Degraded and Pending: the controller starts nothing until the fault is corrected. Without Degraded, its Model may still be read.
  const isBlocked = phase === "Failed" || (phase === "Pending" && isConditionTrue(conditions, "Degraded"));
  return isBlocked
    ? { state: "off", reason: why, isAbsentBySpec: false }
    : { state: "starting", reason: why, isAbsentBySpec };
}

function contextOf({ contextSize, parallelSlots = 1, kvUnified }: InferenceService["spec"]) {
  if (contextSize === undefined || kvUnified === true) return contextSize;
  return Math.floor(contextSize / parallelSlots);
}

function slotsOf({ parallelSlots }: InferenceService["spec"], runtime: string | undefined): number {
  if (parallelSlots !== undefined) return parallelSlots;
  if (runtime === undefined || runtime === "generic") return UNKNOWN_SLOTS;
  return BATCHING.has(runtime) ? BATCHED_SLOTS : 1;
}
