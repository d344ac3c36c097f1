/** Access to a host's remote logs and doctor: short-lived tokens of two service accounts, each token for one host. */
import { GROUP } from "../group.ts";

/** In the namespace of the replicas: the right to create its tokens is the right to read their logs. */
export const LOGS_ACCOUNT = "metalbridge-logs";
/** In the controller's namespace: the right to create its tokens is the right to run doctor on hosts. */
export const DOCTOR_ACCOUNT = "metalbridge-doctor";
/** The Service of the controller's tunnel, in the same namespace. */
export const TUNNEL_SERVICE = "metalbridge-tunnel";
/** Name of the upgraded protocol, which carries one TLS connection to the host. */
export const TUNNEL_PROTOCOL = "metalbridge-tunnel";
/** Default port of hosts' remote access. The tunnel connects to no other port, because a host could name any port in its status. */
export const REMOTE_PORT = 20_998;
/** The minimum that the API server issues. */
export const REMOTE_TOKEN_SECONDS = 600;

/** Audience of a token that this host alone accepts. */
export function remoteAudience(host: string): string {
  return `${GROUP}/hosts/${host}`;
}

/** Trailer of a log that says why it ends; without it the connection was cut. */
export const TRAILER_END = "metalbridge-end";
/** Trailer: how often a part was rotated away before it was read. */
export const TRAILER_LOSSES = "metalbridge-losses";
/** read: all of it; left: the replica has left the host; time, size: a limit of the host. */
export const LOG_ENDS = ["read", "left", "time", "size"] as const;
export type LogEnd = (typeof LOG_ENDS)[number];
