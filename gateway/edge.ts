/** Envoy as the rest of the gateway uses it: the current clusters, its access log, and the address on which it may listen. */
import { isLoopback } from "../src/http/loopback.ts";
import { hostInUrl } from "../src/util/host-in-url.ts";
import type { Clock, Log } from "../src/util/ports.ts";
import { type FollowedFile, type FollowOptions, followFile, type LogPosition } from "./access-log/follow.ts";
import type { GatewayConfig } from "./config.ts";
import { openEnvoy } from "./envoy/run/envoy.ts";
import type {
  Envoy,
  EnvoyCluster,
  EnvoyOptions,
  EnvoyStopOptions,
  EnvoyTls,
  EnvoyUpstreamTls,
} from "./envoy/types.ts";
import type { ServedModel } from "./models/served-model.ts";

export interface EdgePorts {
  readonly config: GatewayConfig;
  readonly decideSocket: string;
  readonly models: () => Iterable<ServedModel>;
  /** False while requests need no key: then only programs of this machine may connect. */
  readonly mayListenPublicly: () => boolean;
  /** Envoy has accepted other endpoints of a service, by `namespace/name`. */
  readonly onAccepted: (key: string) => void;
  readonly onExited: () => void;
  /** Where the process before has stopped to read the access log. */
  readonly readFrom: LogPosition | undefined;
  readonly onLines: FollowOptions["onLines"];
  readonly supervisor: EnvoyOptions["supervisor"];
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export interface Edge {
  /** Base URL of the gateway. */
  readonly url: () => string;
  readonly isRunning: () => boolean;
  /** True while only programs of this machine can connect. */
  readonly isLocal: () => boolean;
  /** True if Envoy sends requests for this service to this address. */
  readonly isServed: (key: string, address: string) => boolean;
  /** The models have changed. */
  readonly update: () => void;
  /** The keys have changed. */
  readonly relisten: () => Promise<void>;
  /** Renames a large access log. To be called from time to time. */
  readonly rotate: () => Promise<void>;
  /** Requests in flight of each service; undefined if Envoy cannot tell. */
  readonly activeRequests: () => Promise<ReadonlyMap<string, number> | undefined>;
  readonly metrics: () => Promise<string | undefined>;
  /** Waits for requests in flight. A second call shortens the wait. */
  readonly stop: (options?: EnvoyStopOptions) => Promise<void>;
}

const LOOPBACK = "127.0.0.1";
const ROTATE_BYTES = 64 * 2 ** 20;

export async function openEdge(ports: EdgePorts): Promise<Edge> {
  const { config, log } = ports;
  let address = addressOf(ports);
  const accepted = new Map<string, ReadonlySet<string>>();
  const envoy = await open(ports, address, (key, addresses) => {
    if (addresses === undefined) accepted.delete(key);
    else accepted.set(key, new Set(addresses));
    ports.onAccepted(key);
  });
  const accessLog = await follow(ports, envoy);
  let isLocal = isLoopback(address);
  let isDue = false;
  const apply = (): void => {
    isDue = false;
    // A failed write is retried by the Envoy part, and logged there.
    void envoy.apply(clustersOf(ports.models()));
  };
  let moving: Promise<void> | undefined;
  const move = async (): Promise<void> => {
    for (let wanted = addressOf(ports); wanted !== address; wanted = addressOf(ports)) {
      log.info({ from: address, to: wanted }, "the gateway listens on another address");
      address = wanted;
      // Both addresses count while one replaces the other.
      isLocal = isLocal && isLoopback(wanted);
      await envoy.listenAt({ address, port: config.port });
      isLocal = isLoopback(address);
    }
  };
  return {
    url: () => urlOf(config, address),
    isRunning: () => envoy.isRunning(),
    isLocal: () => isLocal,
    isServed: (key, endpoint) => accepted.get(key)?.has(endpoint) === true,
    update: () => {
      if (isDue) return;
      isDue = true;
      setImmediate(apply);
    },
    relisten: () => {
      moving ??= move().finally(() => {
        moving = undefined;
      });
      return moving;
    },
    rotate: async () => {
      if (accessLog.size() < ROTATE_BYTES) return;
      await envoy.accessLog.rotate();
    },
    activeRequests: () => envoy.activeRequests(),
    metrics: () => envoy.metrics(),
    stop: async (options) => {
      await envoy.stop(options);
      await accessLog.settle();
    },
  };
}

function open(ports: EdgePorts, address: string, onAccepted: EnvoyOptions["onAccepted"]): Promise<Envoy> {
  const { config, decideSocket, supervisor, models, clock, log, signal } = ports;
  return openEnvoy({
    dir: config.dir,
    envoy: config.envoy,
    listen: { address, port: config.port },
    tls: pair(config.tlsCert, config.tlsKey),
    upstreamTls: upstreamTlsOf(config),
    clusters: clustersOf(models()),
    decideSocket,
    supervisor,
    onAccepted,
    onExited: ports.onExited,
    limits: { maxBodyBytes: config.maxBodyBytes },
    cors: config.corsOrigins.length === 0 ? undefined : { allowOrigins: config.corsOrigins },
    clock,
    log,
    signal,
  });
}

function upstreamTlsOf({
  upstreamCa,
  upstreamCert,
  upstreamKey,
}: GatewayConfig): EnvoyUpstreamTls | undefined {
  if (upstreamCa === undefined) return undefined;
  return { caFile: upstreamCa, client: pair(upstreamCert, upstreamKey) };
}

function pair(certificateFile: string | undefined, keyFile: string | undefined): EnvoyTls | undefined {
  return certificateFile === undefined || keyFile === undefined ? undefined : { certificateFile, keyFile };
}

function follow(
  { readFrom: from, onLines, clock, log, signal }: EdgePorts,
  envoy: Envoy,
): Promise<FollowedFile> {
  return followFile({ file: envoy.accessLog.file, from, onLines, clock, log, signal });
}

function addressOf({ config, mayListenPublicly }: EdgePorts): string {
  return mayListenPublicly() || isLoopback(config.address) ? config.address : LOOPBACK;
}

function urlOf({ port, tlsCert }: GatewayConfig, address: string): string {
  const host = address === "0.0.0.0" || address === "::" ? LOOPBACK : address;
  return `${tlsCert === undefined ? "http" : "https"}://${hostInUrl(host)}:${port}/v1`;
}

/** The same object for the same model, so that only changed models are rendered. */
const clusters = new WeakMap<ServedModel, EnvoyCluster>();

function clustersOf(models: Iterable<ServedModel>): EnvoyCluster[] {
  return [...models].map((model) => {
    const known = clusters.get(model);
    if (known !== undefined) return known;
    const endpoints = model.endpoints.map(({ ip, port, place }) => {
      const host = place === ip ? undefined : place;
      return { address: ip, port, host, isHealthy: true };
    });
    const { key: name, tlsName, keepsConnections } = model;
    const cluster = { name, endpoints, tlsName, keepsConnections };
    clusters.set(model, cluster);
    return cluster;
  });
}
