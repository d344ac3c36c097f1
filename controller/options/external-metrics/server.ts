/**
 * Serves the load of services to autoscalers: external.metrics.k8s.io for the aggregator of the API server, and a path for KEDA. It
 * uses a separate watch, so that every controller serves it, not only the leader.
 */
import type { TLSSocket } from "node:tls";
import { INFERENCE_SERVICES } from "../../../src/api/kinds.ts";
import { createRoutes, type Routes } from "../../../src/http/routes.ts";
import type { KubeConnection } from "../../../src/kube/client/connect.ts";
import { CONFIG_MAPS, SECRETS } from "../../../src/kube/kinds.ts";
import type { ConfigMap, Secret } from "../../../src/kube/objects.ts";
import type { ObjectRef } from "../../../src/kube/types.ts";
import { startReflector } from "../../../src/kube/watch/reflector.ts";
import { isoSeconds } from "../../../src/util/iso-seconds.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import { createCertifiedListener } from "../../frame/certificates/listener.ts";
import { answerLoad, externalMetricsRoutes, failure, LOAD_PATH, type LoadSource } from "./api.ts";

export interface LoadOptions {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export interface ExternalMetricsOptions extends LoadOptions {
  readonly address: string;
  /** 0 takes a free one. */
  readonly port: number;
  readonly secret: ObjectRef;
}

const AUTHENTICATION = { name: "extension-apiserver-authentication", namespace: "kube-system" };

/** Watches services, whose status has their load. */
export function watchLoad(options: LoadOptions): LoadSource & { readonly isSynced: () => boolean } {
  return startReflector({ ...options, kind: INFERENCE_SERVICES, onChange: () => {} });
}

/** Answers KEDA. The load is as public as the metrics of the same port. */
export function loadRoutes(load: ReturnType<typeof watchLoad>): Routes {
  return {
    [LOAD_PATH]: ({ parameters }) =>
      load.isSynced()
        ? answerLoad(parameters.join("/"), load)
        : { status: 503, body: "the services are not listed yet\n" },
  };
}

/** Listens once there is a certificate, and the authority of the aggregator is known. */
export function serveExternalMetrics(
  options: ExternalMetricsOptions,
  load: ReturnType<typeof watchLoad>,
): void {
  const { clock, log, secret: ref } = options;
  let aggregator: Aggregator | undefined;
  let secret: Secret | undefined;
  const handle = createRoutes({
    routes: externalMetricsRoutes(load, () => isoSeconds(clock.nowMs())),
    admit: ({ socket }) => {
      if (!isFromAggregator(socket as TLSSocket, aggregator))
        return failure(401, "only the aggregator of the API server may ask");
      return load.isSynced() ? undefined : failure(503, "the services are not listed yet");
    },
    refuse: failure,
  });
  const listener = createCertifiedListener({
    ...options,
    handle,
    what: "external metrics",
    clientAuthorities: () => aggregator?.authorities,
  });
  startReflector<Secret>({
    ...options,
    kind: SECRETS,
    namespace: ref.namespace ?? "",
    fieldSelector: `metadata.name=${ref.name}`,
    onChange: (_, found) => {
      secret = found;
      listener.onSecret(secret);
    },
  });
  startReflector<ConfigMap>({
    ...options,
    kind: CONFIG_MAPS,
    namespace: AUTHENTICATION.namespace,
    fieldSelector: `metadata.name=${AUTHENTICATION.name}`,
    onChange: (_, found) => {
      aggregator = aggregatorOf(found?.data);
      if (aggregator === undefined)
        log.warn(AUTHENTICATION, "external metrics: the API server has no client CA for aggregation");
      listener.onSecret(secret);
    },
  });
}

/**
 * The API server has authenticated and authorized a request before its aggregator forwards it, so the certificate of the aggregator
 * is enough. A resumed session counts as authorized without a certificate, so the certificate itself is required too.
 */
function isFromAggregator(socket: TLSSocket, aggregator: Aggregator | undefined): boolean {
  if (aggregator === undefined || !socket.authorized) return false;
  const names = [socket.getPeerX509Certificate()?.toLegacyObject().subject.CN ?? []].flat();
  return names.some((name) => aggregator.names.length === 0 || aggregator.names.includes(name));
}

/** The identity of the API server's aggregator, as the API server publishes it for its extensions. Pure. */
interface Aggregator {
  /** Certificates of the authorities of its client certificate, in PEM. */
  readonly authorities: string;
  /** Common names that its certificate may have. Empty: any. */
  readonly names: readonly string[];
}

/** Undefined if the API server runs without `--requestheader-client-ca-file`, or the names cannot be read. */
export function aggregatorOf(data: Readonly<Record<string, string>> | undefined): Aggregator | undefined {
  const authorities = data?.["requestheader-client-ca-file"];
  const names = readNames(data?.["requestheader-allowed-names"] ?? "[]");
  return authorities?.includes("BEGIN CERTIFICATE") === true && names !== undefined
    ? { authorities, names }
    : undefined;
}

function readNames(text: string): readonly string[] | undefined {
  try {
    const names: unknown = JSON.parse(text);
    return Array.isArray(names) && names.every((name) => typeof name === "string") ? names : undefined;
  } catch {
    return undefined;
  }
}
