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
  EnvoyKeyPair,
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
  /** Certificate for sealed replicas, which get requests from now on. */
  readonly present: (keyPair: EnvoyKeyPair) => void;
  /** False while sealed replicas cannot be reached. */
  readonly hasKeyPair: () => boolean;
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
  const identity = createIdentity(
    () => running?.envoy,
    () => update(),
  );
  const apply = (): void => {
    isDue = false;
    // openEnvoy logs and retries a failed write.
    void running?.envoy.apply(clustersOf(ports.models(), identity.isPresented()));
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
      const keyPair = identity.keyPair();
      running = await open(ports, address, keyPair, signal);
      identity.opened(keyPair);
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
    present: identity.present,
    hasKeyPair: () => identity.keyPair() !== undefined,
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

/** The certificate for sealed replicas. Envoy rejects a cluster that names a missing file, so it gets the certificate first. */
function createIdentity(envoy: () => Pick<Envoy, "present"> | undefined, onPresented: () => void) {
  let keyPair: EnvoyKeyPair | undefined;
  let isPresented = false;
  const present = (next: EnvoyKeyPair): void => {
    keyPair = next;
    void envoy()
      ?.present(next)
      .then(() => {
        isPresented = true;
        onPresented();
      });
  };
  return {
    keyPair: () => keyPair,
    isPresented: () => isPresented,
    present,
    /** Must be called when Envoy is open, with the certificate that it got. */
    opened: (given: EnvoyKeyPair | undefined): void => {
      isPresented = given !== undefined;
      if (keyPair !== undefined && keyPair !== given) present(keyPair);
    },
  };
}

async function open(
  ports: EnvoyProxyPorts,
  address: string,
  keyPair: EnvoyKeyPair | undefined,
  signal: AbortSignal,
): Promise<Running> {
  const { config, decideSocket, supervisor, models, onAccepted, onAnswered, onExited, clock, log } = ports;
  const envoy = await openEnvoy({
    dir: config.dir,
    envoy: config.envoy,
    listen: { address, port: config.port },
    tls: pair(config.tlsCert, config.tlsKey),
    upstreamTls: upstreamTlsOf(config),
    keyPair,
    clusters: clustersOf(models(), keyPair !== undefined),
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
const clusters = {
  complete: new WeakMap<ServedModel, EnvoyCluster>(),
  plain: new WeakMap<ServedModel, EnvoyCluster>(),
};

/** Without sealed replicas while this gateway has no certificate for them. */
function clustersOf(models: Iterable<ServedModel>, hasKeyPair: boolean): EnvoyCluster[] {
  const known = hasKeyPair ? clusters.complete : clusters.plain;
  return [...models].map((model) => {
    const cluster = known.get(model) ?? clusterOf(model, hasKeyPair);
    known.set(model, cluster);
    return cluster;
  });
}

function clusterOf(model: ServedModel, hasKeyPair: boolean): EnvoyCluster {
  const { key: name, tlsName, connections } = model;
  const usable = model.endpoints.filter(({ fingerprints }) => hasKeyPair || fingerprints === undefined);
  return {
    name,
    endpoints: usable.map(({ ip, port, host, fingerprints }) => ({
      address: ip,
      port,
      host: host === ip ? undefined : host,
      isHealthy: true,
      fingerprints,
    })),
    tlsName,
    fingerprints: hasKeyPair ? model.fingerprints : [],
    keepsConnections: connections !== "single",
  };
}
