/** Sends one request to a host, with a token that the API server issues for only this host and for ten minutes. */
import { type IncomingMessage, request } from "node:http";
import type { TLSSocket } from "node:tls";
import { REMOTE_TOKEN_SECONDS, remoteAudience } from "../../api/access/remote.ts";
import { MetalbridgeError, remedyOf } from "../../api/errors.ts";
import { parseJson } from "../../util/parse-json.ts";
import { readApiBody } from "../client/transport.ts";
import { explainFailure } from "../errors.ts";
import { requestToken } from "../token.ts";
import { openHostSocket, type SocketOptions } from "./socket.ts";

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
    const answer = await sendOn(socket, token, options, timeout.signal);
    if (answer.statusCode === 200) return answer;
    const reason = messageIn(await readApiBody(answer, MAX_REFUSAL_BYTES).catch(() => ""));
    throw new MetalbridgeError("RemoteRequestRefused", `host ${name}: ${reason} (${answer.statusCode})`);
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
      reject(new MetalbridgeError("RemoteHostUnreachable", `host ${name} gave no answer: ${why}`, remedy));
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
  const answer = await requestToken(connection, { account, seconds: REMOTE_TOKEN_SECONDS, audiences });
  if (answer.ok) return answer.value;
  const { namespace, name } = account;
  const { kind, message } = answer.error;
  if (kind === "notFound")
    throw new MetalbridgeError("RemoteAccessForbidden", message, {
      summary: `remote access has not been granted in namespace ${namespace}: an administrator creates the account ${name} there`,
      command: `kubectl create serviceaccount ${name} -n ${namespace}`,
    });
  if (kind !== "forbidden") throw explainFailure(answer.error);
  throw new MetalbridgeError("RemoteAccessForbidden", message, {
    summary: `ask an administrator for the role ${role} in namespace ${namespace}`,
    command: `kubectl auth can-i create serviceaccounts/${name} --subresource=token -n ${namespace}`,
  });
}

function messageIn(body: string): string {
  const parsed = parseJson(body) as { readonly message?: unknown } | null | undefined;
  return typeof parsed?.message === "string" ? parsed.message : "no reason given";
}
