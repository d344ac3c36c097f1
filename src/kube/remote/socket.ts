/** Opens a TLS connection to a host, through the cluster or directly, and verifies the host by its certificate. */
import { connect } from "node:net";
import type { Duplex } from "node:stream";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { TUNNEL_PROTOCOL, TUNNEL_SERVICE } from "../../api/access/remote.ts";
import { MetalbridgeError, remedyOf } from "../../api/errors.ts";
import { NAMESPACE_SYSTEM } from "../../api/group.ts";
import type { Host } from "../../api/host.ts";
import { remotePlaceOf } from "../../api/remote-place.ts";
import type { KubeConnection } from "../client/connect.ts";
import { explainFailure } from "../errors.ts";
import type { ApiFailure } from "../types.ts";
import { fingerprintOf } from "./fingerprint.ts";

export interface SocketOptions {
  readonly connection: KubeConnection;
  readonly host: Host;
  /** Connects to the host without the tunnel through the cluster. */
  readonly direct: boolean;
  readonly signal: AbortSignal;
}

const CONNECT_MS = 10_000;

/** Throws RemoteAccessOff, RemoteAccessForbidden, RemoteTunnelMissing, RemoteHostUnreachable. */
export async function openHostSocket(options: SocketOptions): Promise<TLSSocket> {
  const { host, direct, signal } = options;
  const { name } = host.metadata;
  const fingerprint = host.status?.remote?.fingerprint;
  const place = remotePlaceOf(host);
  if (place === undefined || fingerprint === undefined)
    throw new MetalbridgeError(
      "RemoteAccessOff",
      `host ${name} has no address that its spec allows`,
      remedyOf("RemoteAccessOff", { host: name }),
    );
  const raw = direct
    ? connect({ host: place.address, port: place.port, signal })
    : await openTunnel(options, name);
  return verifyHost(raw, name, fingerprint);
}

async function openTunnel({ connection, signal }: SocketOptions, host: string): Promise<Duplex> {
  const path = `/api/v1/namespaces/${NAMESPACE_SYSTEM}/services/${TUNNEL_SERVICE}/proxy/hosts/${host}`;
  const request = { method: "GET", path, timeoutMs: CONNECT_MS, signal, upgrade: TUNNEL_PROTOCOL } as const;
  const answer = await connection.upgrade(request);
  if (answer.ok) return answer.value;
  throw explainTunnel(answer.error, host);
}

function explainTunnel(failure: ApiFailure, host: string): MetalbridgeError {
  const { kind, status, message } = failure;
  if (kind === "forbidden")
    return new MetalbridgeError("RemoteAccessForbidden", `cannot use the tunnel to hosts: ${message}`, {
      summary: `ask for the Role metalbridge-tunnel in ${NAMESPACE_SYSTEM}; with --direct this machine connects to the host itself`,
      command: `kubectl auth can-i get services/${TUNNEL_SERVICE} --subresource=proxy -n ${NAMESPACE_SYSTEM}`,
    });
  if (status === 502) return unreachable(host, message);
  if (kind === "notFound" || status === 503)
    return new MetalbridgeError("RemoteTunnelMissing", `no tunnel to host ${host}: ${message}`);
  return explainFailure(failure);
}

function unreachable(host: string, why: string): MetalbridgeError {
  const remedy = remedyOf("RemoteHostUnreachable", { host });
  return new MetalbridgeError("RemoteHostUnreachable", `host ${host} cannot be reached: ${why}`, remedy);
}

/** TLS is end to end: the API server and the controller cannot read the traffic. */
function verifyHost(raw: Duplex, host: string, fingerprint: string): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connectTls({ socket: raw, rejectUnauthorized: false, minVersion: "TLSv1.3" });
    const fail = (why: string): void => {
      clearTimeout(timer);
      socket.destroy();
      raw.destroy();
      reject(unreachable(host, why));
    };
    const timer = setTimeout(() => fail("no answer in time"), CONNECT_MS);
    const onError = (error: Error): void => fail(error.message);
    raw.once("error", onError);
    socket.once("error", onError);
    socket.once("close", () => fail("the connection was closed"));
    socket.once("secureConnect", () => {
      if (fingerprintOf(socket) !== fingerprint)
        return fail("its certificate differs from the status of the Host; the agent may have just restarted");
      clearTimeout(timer);
      socket.removeListener("error", onError);
      socket.on("error", () => socket.destroy());
      resolve(socket);
    });
  });
}
