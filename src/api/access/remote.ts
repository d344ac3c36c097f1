/** Access to a host's remote logs and doctor: short-lived tokens of two service accounts, each token for one host. */
import { GROUP } from "../group.ts";

/** Account in the namespace of the replicas. Users who may create its tokens may read the logs of these replicas. */
export const LOGS_ACCOUNT = "metalbridge-logs";
/** Account in the controller's namespace. Users who may create its tokens may run doctor on hosts. */
export const DOCTOR_ACCOUNT = "metalbridge-doctor";
/** The Service of the controller's tunnel, in the same namespace. */
export const TUNNEL_SERVICE = "metalbridge-tunnel";
/** Name of the upgraded protocol, which carries one TLS connection to the host. */
export const TUNNEL_PROTOCOL = "metalbridge-tunnel";
/** Default port of hosts' remote access. The tunnel connects to this port only, because a host could set any port in its status. */
export const REMOTE_PORT = 20_998;
/** Lifetime of a remote token: the minimum that the API server accepts. */
export const REMOTE_TOKEN_SECONDS = 600;

/** Audience of a token that only this host accepts. */
export function remoteAudience(host: string): string {
  return `${GROUP}/hosts/${host}`;
}

/** HTTP trailer with the reason why a log ends. If it is missing, the connection was interrupted. */
export const TRAILER_END = "metalbridge-end";
/** HTTP trailer with the number of parts that were rotated before they were read. */
export const TRAILER_LOSSES = "metalbridge-losses";
/** read: the log is complete. left: the replica has left the host. time, size: a limit of the host was reached. */
const LOG_ENDS = ["read", "left", "time", "size"] as const;
export type LogEnd = (typeof LOG_ENDS)[number];
