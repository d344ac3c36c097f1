/** Sends one request to a host, with a token that the API server issues for only this host and for ten minutes. */
import { type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import type { Duplex } from "node:stream";
import { connect as connectTls, type TLSSocket } from "node:tls";
import {
  REMOTE_TOKEN_SECONDS,
  remoteAudience,
  TUNNEL_PROTOCOL,
  TUNNEL_SERVICE,
} from "../../api/access/remote.ts";
import { MetalbridgeError, remedyOf } from "../../api/errors.ts";
import { NAMESPACE_SYSTEM } from "../../api/group.ts";
import type { Host } from "../../api/host.ts";
import { remotePlaceOf } from "../../api/remote-place.ts";
import { parseJson } from "../../util/parse-json.ts";
import type { KubeConnection } from "../client/connect.ts";
import { readApiBody } from "../client/transport.ts";
import { explainFailure } from "../errors.ts";
import { requestToken } from "../token.ts";
import type { ApiFailure } from "../types.ts";
import { fingerprintOf } from "./fingerprint.ts";

export interface HostRequestOptions extends SocketOptions {
  readonly path: string;
  readonly account: { readonly namespace: string; readonly name: string };
  /** Role that grants the token, for messages. */
  readonly role: string;
  /** Time limit for the response headers, and for the body of an error response. */
  readonly timeoutMs: number;
}

const MAX_REFUSAL_BYTES = 64 << 10;

/** Resolves when the response headers have arrived. Throws MetalbridgeError. */
export async function requestHost(options: HostRequestOptions): Promise<IncomingMessage> {
  const { name } = options.host.metadata;
  const token = await tokenFor(options);
  const socket = await openHostSocket(options);
  // Node applies the timeout of a request only to sockets that it has connected.
  const timeout = new AbortController();
  const timer = setTimeout(() => timeout.abort(), options.timeoutMs);
  try {
    const response = await sendOn(socket, token, options, timeout.signal);
    if (response.statusCode === 200) return response;
    const reason = messageIn(await readApiBody(response, MAX_REFUSAL_BYTES).catch(() => ""));
    throw new MetalbridgeError("RemoteRequestRefused", `host ${name}: ${reason} (${response.statusCode})`);
  } finally {
    clearTimeout(timer);
  }
}

function sendOn(
  socket: TLSSocket,
  token: string,
  { host, path, signal, timeoutMs }: HostRequestOptions,
  timeout: AbortSignal,
): Promise<IncomingMessage> {
  const { name } = host.metadata;
  return new Promise((resolve, reject) => {
    const outgoing = request({
      path,
      signal: AbortSignal.any([signal, timeout]),
      host: name,
      // Without an agent, which would open another connection.
      createConnection: () => socket,
      headers: { authorization: `Bearer ${token}` },
    });
    outgoing.once("error", (error) => {
      const why = timeout.aborted ? `none within ${timeoutMs / 1_000} s` : error.message;
      const remedy = remedyOf("RemoteHostUnreachable", { host: name });
      reject(new MetalbridgeError("RemoteHostUnreachable", `host ${name} sent no response: ${why}`, remedy));
    });
    outgoing.once("response", resolve);
    outgoing.end();
  });
}

async function tokenFor({
  connection,
  account,
  host,
  role,
}: Pick<HostRequestOptions, "connection" | "account" | "host" | "role">): Promise<string> {
  const audiences = [remoteAudience(host.metadata.name)];
  const response = await requestToken(connection, { account, seconds: REMOTE_TOKEN_SECONDS, audiences });
  if (response.ok) return response.value;
  const { namespace, name } = account;
  const { kind, message } = response.error;
  if (kind === "notFound")
    throw new MetalbridgeError("RemoteAccessForbidden", message, {
      summary: `remote access has not been granted in namespace ${namespace}: an administrator creates the account ${name} there`,
      command: `kubectl create serviceaccount ${name} -n ${namespace}`,
    });
  if (kind !== "forbidden") throw explainFailure(response.error);
  throw new MetalbridgeError("RemoteAccessForbidden", message, {
    summary: `ask an administrator for the role ${role} in namespace ${namespace}`,
    command: `kubectl auth can-i create serviceaccounts/${name} --subresource=token -n ${namespace}`,
  });
}

function messageIn(body: string): string {
  const parsed = parseJson(body) as { readonly message?: unknown } | null | undefined;
  return typeof parsed?.message === "string" ? parsed.message : "no reason given";
}

interface SocketOptions {
  readonly connection: KubeConnection;
  readonly host: Host;
  /** Connects to the host without the tunnel through the cluster. */
  readonly direct: boolean;
  readonly signal: AbortSignal;
}

const CONNECT_MS = 10_000;

/**
 * Opens a TLS connection to a host, through the cluster or directly, and verifies the host by its certificate. Throws
 * RemoteAccessOff, RemoteAccessForbidden, RemoteTunnelMissing, RemoteHostUnreachable.
 */
async function openHostSocket(options: SocketOptions): Promise<TLSSocket> {
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
  const response = await connection.upgrade(request);
  if (response.ok) return response.value;
  throw explainTunnel(response.error, host);
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
    const timer = setTimeout(() => fail("no response in time"), CONNECT_MS);
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
