/** One request to a host, with a token that the API server issues for this host alone and for ten minutes. */
import { type IncomingMessage, request } from "node:http";
import type { TLSSocket } from "node:tls";
import { REMOTE_TOKEN_SECONDS, remoteAudience } from "../../src/api/access/remote.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { readApiBody } from "../../src/kube/client/transport.ts";
import { explainFailure } from "../../src/kube/errors.ts";
import { requestToken } from "../../src/kube/token.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { openHostSocket, type SocketOptions } from "./socket.ts";

export interface AskOptions extends SocketOptions {
  readonly path: string;
  readonly account: { readonly namespace: string; readonly name: string };
  /** Role that grants the token, for messages. */
  readonly role: string;
  /** Until the head of the answer, and the whole of a refusal. */
  readonly timeoutMs: number;
}

const MAX_REFUSAL_BYTES = 64 << 10;

/** The answer, whose body is still to come. Throws MetalbridgeError. */
export async function askHost(options: AskOptions): Promise<IncomingMessage> {
  const { name } = options.host.metadata;
  const token = await tokenFor(options.cluster, options);
  const socket = await openHostSocket(options);
  // Node applies a request's own timeout only to sockets that it has connected itself.
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), options.timeoutMs);
  try {
    const answer = await answerOn(socket, token, options, late.signal);
    if (answer.statusCode === 200) return answer;
    const said = messageIn(await readApiBody(answer, MAX_REFUSAL_BYTES).catch(() => ""));
    throw new MetalbridgeError("RemoteRequestRefused", `host ${name}: ${said} (${answer.statusCode})`);
  } finally {
    clearTimeout(timer);
  }
}

function answerOn(
  socket: TLSSocket,
  token: string,
  { host, path, signal, timeoutMs }: AskOptions,
  late: AbortSignal,
): Promise<IncomingMessage> {
  const { name } = host.metadata;
  return new Promise((resolve, reject) => {
    const asked = request({
      path,
      signal: AbortSignal.any([signal, late]),
      host: name,
      // Without an agent, which would open a connection of its own.
      createConnection: () => socket,
      headers: { authorization: `Bearer ${token}` },
    });
    asked.once("error", (error) => {
      const why = late.aborted ? `none within ${timeoutMs / 1_000} s` : error.message;
      reject(new MetalbridgeError("RemoteHostUnreachable", `host ${name} gave no answer: ${why}`));
    });
    asked.once("response", resolve);
    asked.end();
  });
}

async function tokenFor(
  { connection }: Cluster,
  { account, host, role }: Pick<AskOptions, "account" | "host" | "role">,
): Promise<string> {
  const audiences = [remoteAudience(host.metadata.name)];
  const answer = await requestToken(connection, { account, seconds: REMOTE_TOKEN_SECONDS, audiences });
  if (answer.ok) return answer.value;
  const { namespace, name } = account;
  const { kind, message } = answer.error;
  if (kind === "notFound")
    throw new MetalbridgeError("RemoteAccessForbidden", message, {
      summary: `remote access has not been granted in namespace ${namespace}: an administrator makes the account ${name} there`,
      command: `kubectl create serviceaccount ${name} -n ${namespace}`,
    });
  if (kind !== "forbidden") throw explainFailure(answer.error);
  throw new MetalbridgeError("RemoteAccessForbidden", message, {
    summary: `ask an administrator for the role ${role} in namespace ${namespace}`,
    command: `kubectl auth can-i create serviceaccounts/${name} --subresource=token -n ${namespace}`,
  });
}

function messageIn(body: string): string {
  try {
    const { message } = JSON.parse(body) as { readonly message?: unknown };
    return typeof message === "string" ? message : "no reason given";
  } catch {
    return "no reason given";
  }
}
