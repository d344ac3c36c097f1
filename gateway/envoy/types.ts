/** Interface between Envoy and the rest of the gateway. */
import type { Supervisor } from "../../src/supervise/supervised.ts";
import type { Clock, Log } from "../../src/util/ports.ts";

/** Port 0 is not supported. */
export interface ListenAddress {
  readonly address: string;
  readonly port: number;
}

/** One replica that can serve requests. With `isHealthy: false` it gets no new requests, and its running requests finish. */
export interface EnvoyEndpoint {
  /** An IP address. */
  readonly address: string;
  readonly port: number;
  /** Share of requests relative to the other endpoints, from 1. Absent: 1. */
  readonly weight?: number;
  /** Host or node, for clients that ask which one answered. Absent: unknown. */
  readonly host?: string | undefined;
  readonly isHealthy: boolean;
  /** It serves TLS 1.3, and presents one of these certificates. Absent: as `EnvoyCluster.tlsName` says. */
  readonly fingerprints?: readonly string[] | undefined;
}

/** One service. A change of services changes clusters and endpoints, but never routes. */
export interface EnvoyCluster {
  /** The value of `x-metalbridge-cluster` that selects it: NAMESPACE/NAME. */
  readonly name: string;
  readonly endpoints: readonly EnvoyEndpoint[];
  /** Maximum connections and concurrent requests to all endpoints together; more get 503. Absent: 4096. */
  readonly maxConnections?: number;
  /** Time until a new endpoint gets its full share of requests. Absent: 10 s. 0: immediately. */
  readonly slowStartMs?: number;
  /** Its endpoints serve HTTPS with a certificate for this DNS name. Absent: plain HTTP. Requires `EnvoyOptions.upstreamTls`. */
  readonly tlsName?: string | undefined;
  /** Certificates that sealed endpoints may present; those of further endpoints included. Requires `EnvoyOptions.keyPair`. */
  readonly fingerprints?: readonly string[];
  /** Its endpoints keep idle connections for at least 5 s. Absent: each request gets its own connection. */
  readonly keepsConnections?: boolean;
}

/** Envoy reloads these files when another file is renamed over them, or when the `..data` link of their folder changes, as with Secret volumes. */
export interface EnvoyTls {
  readonly certificateFile: string;
  readonly keyFile: string;
}

/** A certificate and its private key, in PEM. */
export interface EnvoyKeyPair {
  readonly certificate: string;
  readonly key: string;
}

/** TLS to endpoints that serve HTTPS. Envoy reloads the files like those of the listener. */
export interface EnvoyUpstreamTls {
  /** CA certificates (PEM) that verify endpoints. */
  readonly caFile: string;
  /** Client certificate, for endpoints that require one. */
  readonly client?: EnvoyTls | undefined;
}

export interface EnvoyLimits {
  /** Larger bodies get 413. Absent: 32 MiB. */
  readonly maxBodyBytes?: number;
  /** Maximum time for a client to send its whole request. Absent: 5 min. */
  readonly requestReceiveMs?: number;
  /** Maximum time from a connection to its first bytes, and for a TLS handshake. Absent: 10 s. */
  readonly firstBytesMs?: number;
  /** Maximum time before the first token, or between two. Absent: 1 h. */
  readonly idleMs?: number;
  /** Maximum time for a decision, including the queue. Absent: 10 min. */
  readonly decideMs?: number;
  /** Open client connections; further ones are closed. Absent: 20,000. */
  readonly maxClientConnections?: number;
  /** As Envoy's heap grows from 40 to 90 % of this, idle connections are closed sooner. Absent: 160 MiB. */
  readonly crowdedHeapBytes?: number;
}

/** Origins of browsers that may call the gateway, exact or `*`. */
export interface EnvoyCors {
  readonly allowOrigins: readonly string[];
}

/**
 * Called when Envoy has accepted the endpoints of a cluster, with the addresses that can get requests from now on; undefined: the
 * cluster was removed. A request for another address would get an endpoint of Envoy's choice, or 503.
 */
export type OnAccepted = (cluster: string, addresses: readonly string[] | undefined) => void;

/**
 * Called as soon as a request has finished, with its id and the status of its response; 0: there was none. A message may be lost:
 * the line in the access log is always written.
 */
export type OnAnswered = (requestId: string, status: number) => void;

export interface EnvoyOptions {
  /** A separate folder for configuration, admin socket and logs. Short: the path of a Unix socket has at most 103 bytes. */
  readonly dir: string;
  /** Program to run as a child that outlives a killed gateway; "external": another container runs it, with this folder. */
  readonly envoy: string | "external";
  readonly listen: ListenAddress;
  /** Initial clusters. */
  readonly clusters: readonly EnvoyCluster[];
  readonly tls?: EnvoyTls;
  readonly upstreamTls?: EnvoyUpstreamTls | undefined;
  /** Presented to sealed endpoints. */
  readonly keyPair?: EnvoyKeyPair | undefined;
  /** Starts Envoy, and finds one again that outlived an earlier gateway. */
  readonly supervisor: Supervisor;
  /**
   * Unix socket of the decision service. Envoy sends it METHOD /decide/PATH with all headers of the client and the first 4096
   * bytes of the body. A refusal with a 5xx status has to be sent as 429 with `x-metalbridge-status: 5xx`.
   */
  readonly decideSocket: string;
  readonly limits?: EnvoyLimits;
  /** Absent: no CORS headers, so browsers of other origins cannot read responses. */
  readonly cors?: EnvoyCors;
  /** Worker threads. Absent: one per core. */
  readonly concurrency?: number;
  readonly onAccepted?: OnAccepted | undefined;
  readonly onAnswered?: OnAnswered | undefined;
  /** Called when Envoy has exited; its requests in flight are lost. */
  readonly onExited?: (() => void) | undefined;
  readonly clock: Clock;
  readonly log: Log;
  /** Ends supervision and timers, and leaves Envoy running. */
  readonly signal: AbortSignal;
}

export interface EnvoyStopOptions {
  /** Maximum time for requests in flight to finish. Absent: 30 s. */
  readonly drainMs?: number;
}

/** A running Envoy. */
export interface Envoy {
  /**
   * Replaces all clusters. Endpoints are sent to Envoy immediately; the file of clusters is written if services differ. Resolves
   * when it is written. Overlapping calls are merged, and the last one wins. If the disk is full the previous services stay
   * active, and writing is retried until it succeeds or newer clusters arrive. Pass the same object for an unchanged cluster.
   */
  readonly apply: (clusters: readonly EnvoyCluster[]) => Promise<void>;
  /**
   * Replaces the certificate for sealed endpoints; clusters may have such endpoints once it resolves. Open connections keep the
   * previous one for up to 5 minutes. If the disk is full, writing is retried.
   */
  readonly present: (keyPair: EnvoyKeyPair) => Promise<void>;
  /** Resolves once it accepts connections. */
  readonly listening: Promise<void>;
  /**
   * Changes the address. Connections to the previous one are closed within 10 s; resolves when none is left. If the disk is full,
   * writing is retried.
   */
  readonly listenAt: (listen: ListenAddress) => Promise<void>;
  /** Requests in flight by cluster; undefined while Envoy does not answer, or while a replaced Envoy finishes its requests. */
  readonly activeRequests: () => Promise<ReadonlyMap<string, number> | undefined>;
  /** False while it is restarting. */
  readonly isRunning: () => boolean;
  /** Restores what was removed of the files by which the next gateway finds it. Throws the system error. */
  readonly restoreFiles: () => void;
  readonly accessLog: {
    /** One JSON line per finished request: parseAccessLogLine. */
    readonly file: string;
    /** Renames the file to `FILE.1` and makes Envoy open a new one, without losing a line. */
    readonly rotate: () => Promise<void>;
  };
  /** Envoy's own metrics in Prometheus' text format; undefined while it does not answer. */
  readonly metrics: () => Promise<string | undefined>;
  /** Closes the listener, waits for requests in flight up to the limit, and stops Envoy. */
  readonly stop: (options?: EnvoyStopOptions) => Promise<void>;
}
