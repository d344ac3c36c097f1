/** Envoy as the gateway uses it: a cluster per model, its access log, and the address on which it may listen. */
import { isLoopback } from "../src/http/loopback.ts";
import { hostInUrl } from "../src/util/host-in-url.ts";
import type { Clock, Log } from "../src/util/ports.ts";
import type { GatewayConfig } from "./config.ts";
import { type FollowedFile, followFile, type LogOptions, type LogPosition } from "./envoy/follow-log.ts";
import { openEnvoy } from "./envoy/run/envoy.ts";
import type {
  Envoy,
  EnvoyCluster,
  EnvoyOptions,
  EnvoyStopOptions,
  EnvoyTls,
  EnvoyUpstreamTls,
  OnAccepted,
  OnAnswered,
} from "./envoy/types.ts";
import type { ServedModel } from "./models/served-model.ts";

export interface EnvoyProxyPorts {
  readonly config: GatewayConfig;
  readonly decideSocket: string;
  readonly models: () => Iterable<ServedModel>;
  /** False while requests need no key: only programs on this machine may connect then. */
  readonly mayListenPublicly: () => boolean;
  readonly onAccepted: OnAccepted;
  readonly onAnswered: OnAnswered;
  readonly onExited: () => void;
  /** Position up to which the previous process read the access log. */
  readonly readFrom: LogPosition | undefined;
  readonly onLines: LogOptions["onLines"];
  readonly supervisor: EnvoyOptions["supervisor"];
  readonly clock: Clock;
  readonly log: Log;
}

export interface EnvoyProxy {
  /**
   * Starts Envoy, or adopts the one of the previous process. May be repeated after a failure; the signal ends what a call has
   * opened.
   */
  readonly open: (signal: AbortSignal) => Promise<void>;
  /** Resolves once `open` has succeeded. */
  readonly whenOpen: () => Promise<void>;
  /** Base URL of the gateway. */
  readonly url: () => string;
  readonly isRunning: () => boolean;
  /** True while only programs on this machine can connect. */
  readonly isLocal: () => boolean;
  /** Must be called when models have changed. Calls in the same turn of the event loop are merged. */
  readonly update: () => void;
  /** Must be called when keys have changed: they determine the address. */
  readonly relisten: () => Promise<void>;
  /** Restores removed files of Envoy's processes, and rotates the access log if it is large. Call periodically. */
  readonly maintain: () => Promise<void>;
  /** Requests in flight by service; undefined if Envoy does not report them. */
  readonly activeRequests: () => Promise<ReadonlyMap<string, number> | undefined>;
  /** Waits for requests in flight. A second call shortens the wait. */
  readonly stop: (options?: EnvoyStopOptions) => Promise<void>;
}

interface Running {
  readonly envoy: Envoy;
  readonly accessLog: FollowedFile;
}

const LOOPBACK = "127.0.0.1";
const ROTATE_BYTES = 64 * 2 ** 20;

/** Has no effect before `open`. */
export function createEnvoyProxy(ports: EnvoyProxyPorts): EnvoyProxy {
  const { config, log } = ports;
  const opened = Promise.withResolvers<void>();
  let running: Running | undefined;
  let address = addressOf(ports);
  let isLocal = false;
  let isDue = false;
  const apply = (): void => {
    isDue = false;
    // openEnvoy logs and retries a failed write.
    void running?.envoy.apply(clustersOf(ports.models()));
  };
  const update = (): void => {
    if (isDue) return;
    isDue = true;
    setImmediate(apply);
  };
  let moving: Promise<void> | undefined;
  const move = async ({ envoy }: Running): Promise<void> => {
    for (let desired = addressOf(ports); desired !== address; desired = addressOf(ports)) {
      log.info({ from: address, to: desired }, "the gateway listens on another address");
      address = desired;
      // While one address replaces the other, Envoy accepts connections on both.
      isLocal = isLocal && isLoopback(desired);
      await envoy.listenAt({ address, port: config.port });
      isLocal = isLoopback(address);
    }
  };
  const relisten = async (): Promise<void> => {
    if (running === undefined) return;
    moving ??= move(running).finally(() => {
      moving = undefined;
    });
    await moving;
  };
  return {
    open: async (signal) => {
      address = addressOf(ports);
      running = await open(ports, address, signal);
      isLocal = isLoopback(address);
      opened.resolve();
      // Models and keys may have changed since Envoy got its first configuration.
      update();
      void relisten();
    },
    whenOpen: () => opened.promise,
    url: () => urlOf(config, address),
    isRunning: () => running?.envoy.isRunning() === true,
    isLocal: () => isLocal,
    update,
    relisten,
    maintain: async () => {
      running?.envoy.restoreFiles();
      if (running === undefined || running.accessLog.size() < ROTATE_BYTES) return;
      await running.envoy.accessLog.rotate();
    },
    activeRequests: async () => running?.envoy.activeRequests(),
    stop: async (options) => {
      await running?.envoy.stop(options);
      await running?.accessLog.settle();
    },
  };
}

async function open(ports: EnvoyProxyPorts, address: string, signal: AbortSignal): Promise<Running> {
  const { config, decideSocket, supervisor, models, onAccepted, onAnswered, onExited, clock, log } = ports;
  const envoy = await openEnvoy({
    dir: config.dir,
    envoy: config.envoy,
    listen: { address, port: config.port },
    tls: pair(config.tlsCert, config.tlsKey),
    upstreamTls: upstreamTlsOf(config),
    clusters: clustersOf(models()),
    decideSocket,
    supervisor,
    onAccepted,
    onAnswered,
    onExited,
    limits: { maxBodyBytes: config.maxBodyBytes },
    cors: config.corsOrigins.length === 0 ? undefined : { allowOrigins: config.corsOrigins },
    clock,
    log,
    signal,
  });
  const { readFrom: from, onLines } = ports;
  const accessLog = await followFile({ file: envoy.accessLog.file, from, onLines, clock, log, signal });
  return { envoy, accessLog };
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

function addressOf({ config, mayListenPublicly }: EnvoyProxyPorts): string {
  return mayListenPublicly() || isLoopback(config.address) ? config.address : LOOPBACK;
}

function urlOf({ port, tlsCert }: GatewayConfig, address: string): string {
  const host = address === "0.0.0.0" || address === "::" ? LOOPBACK : address;
  return `${tlsCert === undefined ? "http" : "https"}://${hostInUrl(host)}:${port}/v1`;
}

/** An unchanged model keeps its object, because only changed clusters are rendered. */
const clusters = new WeakMap<ServedModel, EnvoyCluster>();

function clustersOf(models: Iterable<ServedModel>): EnvoyCluster[] {
  return [...models].map((model) => {
    const known = clusters.get(model);
    if (known !== undefined) return known;
    const endpoints = model.endpoints.map(({ ip, port, host }) => ({
      address: ip,
      port,
      host: host === ip ? undefined : host,
      isHealthy: true,
    }));
    const { key: name, tlsName, connections } = model;
    const cluster = { name, endpoints, tlsName, keepsConnections: connections !== "single" };
    clusters.set(model, cluster);
    return cluster;
  });
}
