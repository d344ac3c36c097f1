/** How a user is let in to a host's remote access: short-lived tokens of two kinds of accounts, each for one host. */
import { GROUP } from "../group.ts";

/** In the namespace of the replicas: whoever may create tokens of it may read their logs. */
export const LOGS_ACCOUNT = "metalbridge-logs";
/** In the namespace of the controller: whoever may create tokens of it may run doctor on hosts. */
export const DOCTOR_ACCOUNT = "metalbridge-doctor";
/** The Service of the controller's tunnel, in the same namespace. */
export const TUNNEL_SERVICE = "metalbridge-tunnel";
/** What a connection to it is upgraded to: the bytes of one TLS connection to the host. */
export const TUNNEL_PROTOCOL = "metalbridge-tunnel";
/** The port of hosts' remote access unless configured. The tunnel leads to no other one: a host's status must not choose. */
export const REMOTE_PORT = 20_998;
/** The least that the API server issues. */
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
