/** The files in the gateway's folder for Envoy. */
import { join } from "node:path";

export interface EnvoyPaths {
  readonly bootstrap: string;
  /** Files that Envoy watches; each is replaced by rename. */
  readonly xds: string;
  readonly listeners: string;
  readonly clusters: string;
  readonly secret: string;
  /** Authorities of endpoints with HTTPS. */
  readonly upstreamTrust: string;
  /** Certificate of this gateway for endpoints. */
  readonly upstreamSecret: string;
  /** Certificate of this gateway for sealed endpoints. */
  readonly transportSecret: string;
  /** Files that are being written. */
  readonly partial: string;
  readonly admin: string;
  /** Socket of the endpoint server. */
  readonly endpoints: string;
  /** Socket of Envoy for connections that arrived while none listened. */
  readonly held: string;
  readonly accessLog: string;
  /** A run directory for each process, with what it prints, and by which a later gateway finds it. */
  readonly processes: string;
}

export function envoyPaths(dir: string): EnvoyPaths {
  const xds = join(dir, "xds");
  return {
    bootstrap: join(dir, "bootstrap.json"),
    xds,
    listeners: join(xds, "listeners.json"),
    clusters: join(xds, "clusters.json"),
    secret: join(xds, "secret.json"),
    upstreamTrust: join(xds, "upstream-trust.json"),
    upstreamSecret: join(xds, "upstream-secret.json"),
    transportSecret: join(xds, "transport-secret.json"),
    partial: join(dir, "partial"),
    admin: join(dir, "admin.sock"),
    endpoints: join(dir, "endpoints.sock"),
    held: join(dir, "held.sock"),
    accessLog: join(dir, "access.log"),
    processes: join(dir, "processes"),
  };
}
