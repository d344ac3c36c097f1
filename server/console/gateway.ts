/** /console/gateway/…: requests to the gateway, streamed in both directions. */
import { type IncomingMessage, type OutgoingHttpHeaders, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { CONSOLE_PATH } from "../../src/console/protocol.ts";
import { ASK_HOST_HEADER, HOST_HEADER } from "../../src/gateway/headers.ts";
import { errorMessage } from "../../src/util/error-message.ts";
import { pathBelow } from "./body.ts";
import type { SessionData } from "./session/session.ts";

export interface ConsoleGateway {
  /** Base URL as this server reaches it. */
  readonly url: string;
  /** Certificate (PEM) that has signed the gateway's; public ones if absent. */
  readonly authority?: string | undefined;
  /** Base URL as clients reach it, for snippets. */
  readonly publicUrl: string;
  /** Readers without a key are recognized by their Kubernetes token. */
  readonly takesKubernetesTokens: boolean;
}

const PREFIX = `${CONSOLE_PATH}/gateway`;
const SENT_HEADERS = ["accept"] as const;
const BODY_HEADERS = ["content-type", "content-length"] as const;
/** All others would speak for the console's own origin: cookies, redirects, questions for a password, orders to forget. */
const PASSED_HEADERS = [
  ...["content-type", "content-encoding", "content-length", "retry-after"],
  ...["x-request-id", "x-should-retry", HOST_HEADER],
] as const;

export function mountGateway(
  scope: FastifyInstance,
  gateway: ConsoleGateway | undefined,
  sessionOf: (request: FastifyRequest) => SessionData,
): void {
  void scope.register(async (inner) => {
    inner.removeAllContentTypeParsers();
    inner.addContentTypeParser("*", (_, payload, done) => done(null, payload));
    inner.route({
      method: ["GET", "POST"],
      url: `${PREFIX}/*`,
      exposeHeadRoute: false,
      config: { calledBy: "call" },
      handler: async (request, reply) => {
        if (gateway === undefined)
          throw new MetalbridgeError("ConsoleGatewayMissing", "no gateway is configured");
        await pass(gateway, sessionOf(request), request, reply);
      },
    });
  });
}

async function pass(
  gateway: ConsoleGateway,
  session: SessionData,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const left = new AbortController();
  reply.raw.once("close", () => left.abort());
  // A long prompt is read in silence.
  reply.raw.socket?.setTimeout(0);
  const answer = await send(gateway, session, request, left.signal);
  const headers: Record<string, string | string[] | undefined> = {
    "cache-control": "no-store",
    "x-accel-buffering": "no",
    "x-content-type-options": "nosniff",
    // No page, whatever its type says.
    "content-security-policy": "sandbox",
  };
  for (const name of PASSED_HEADERS)
    if (answer.headers[name] !== undefined) headers[name] = answer.headers[name];
  reply.hijack();
  reply.raw.writeHead(answer.statusCode ?? 502, headers);
  reply.raw.flushHeaders();
  // Either side may leave; the other one is then closed.
  await pipeline(answer, reply.raw).catch(() => answer.destroy());
}

function send(
  { url, authority: ca, takesKubernetesTokens }: ConsoleGateway,
  { gatewayKey, token }: SessionData,
  request: FastifyRequest,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const { raw, body } = request;
  const hasBody = body !== undefined && body !== null;
  const target = new URL(url + targetPath(request));
  const headers: OutgoingHttpHeaders = {
    "user-agent": "metalbridge-console",
    [ASK_HOST_HEADER]: "true",
  };
  // The length of a body that is not sent would make the gateway wait for it.
  for (const name of hasBody ? [...SENT_HEADERS, ...BODY_HEADERS] : SENT_HEADERS)
    if (raw.headers[name] !== undefined) headers[name] = raw.headers[name];
  const credential = gatewayKey ?? (takesKubernetesTokens ? token : undefined);
  if (credential !== undefined) headers.authorization = `Bearer ${credential}`;
  const open = target.protocol === "https:" ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    // A connection per request: what is left on a shared one could be taken for the answer to another reader.
    const upstream = open(target, { method: raw.method, headers, signal, ca, agent: false });
    upstream.once("response", resolve);
    upstream.on("error", (error) =>
      reject(new MetalbridgeError("ConsoleGatewayUnreachable", `${url}: ${errorMessage(error)}`)),
    );
    if (hasBody) void pipeline(body as Readable, upstream).catch((error) => upstream.destroy(error));
    else upstream.end();
  });
}

/** Throws ConsoleRequestInvalid for a path that could leave the gateway's base path. */
function targetPath(request: FastifyRequest): string {
  const path = pathBelow(PREFIX, request);
  const [pathname = ""] = path.split("?");
  if (/(^|\/)(\.|%2e){1,2}(\/|$)|%2f|%5c|\\/i.test(pathname))
    throw new MetalbridgeError("ConsoleRequestInvalid", "the path is not passed on");
  return path;
}
