/** Sends a request to an engine and reads the response as a stream or as JSON. */
import { Agent, type ClientRequestArgs, type IncomingMessage, type RequestOptions, request } from "node:http";
import { Agent as TlsAgent, request as tlsRequest } from "node:https";
import type { Duplex } from "node:stream";
import { createParser } from "eventsource-parser";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { KeyedCertificate } from "../../src/crypto/certificate.ts";
import { readBodyText } from "../../src/http/body.ts";
import { connectPinned } from "../../src/kube/remote/pinned-connection.ts";
import { errorMessage } from "../../src/util/error-message.ts";
import { type EndpointTarget, type ServerEndpoint, urlOf } from "./target.ts";

export interface EndpointCall {
  readonly target: EndpointTarget;
  readonly endpoint: ServerEndpoint;
  readonly path: string;
  /** Absent: a GET. */
  readonly body?: object;
  readonly signal: AbortSignal;
  readonly agent?: Agent;
}

const ERROR_SHOWN = 300;
/** A whole answer, or one event of a stream. */
const MAX_ANSWER_BYTES = 8 << 20;
const TOO_LARGE = "the answer is larger than 8 MiB. Check the engine, and ask for less";

const CONNECT_MS = 10_000;

/** Reuses connections for the requests that share it. */
export function newAgent(target: EndpointTarget): Agent {
  if (target.client !== undefined) return new SealedAgent(target.client);
  return target.tls === undefined ? new Agent({ keepAlive: true }) : new TlsAgent({ keepAlive: true });
}

interface CallOptions extends RequestOptions {
  /** The agent gets it as it is: the host of the URL may be another notation of its address. */
  readonly endpoint: ServerEndpoint;
}

/** Sends requests to sealed endpoints over TLS, and to others in plain HTTP. */
class SealedAgent extends Agent {
  readonly #client: KeyedCertificate;

  constructor(client: KeyedCertificate) {
    super({ keepAlive: true });
    this.#client = client;
  }

  override createConnection(
    options: ClientRequestArgs & Partial<CallOptions>,
    done?: (error: Error | null, socket: Duplex) => void,
  ): Duplex | null | undefined {
    const { endpoint } = options;
    if (endpoint === undefined) throw new Error("a request without its endpoint, which may be sealed");
    const { address: host, port, fingerprints } = endpoint;
    if (fingerprints === undefined) return super.createConnection(options, done);
    const identity = { ...this.#client, timeoutMs: CONNECT_MS };
    connectPinned({ host, port, fingerprints }, identity, (error, socket) => done?.(error, socket));
    return undefined;
  }
}

/** Yields the data of each server-sent event except `[DONE]`. Throws NoAnswer, or the reason of the aborted `signal`. */
export async function* streamEvents(call: EndpointCall): AsyncGenerator<unknown> {
  const response = await open(call);
  const events: unknown[] = [];
  const parser = createParser({
    maxBufferSize: MAX_ANSWER_BYTES,
    onError: ({ type }) => {
      if (type === "max-buffer-size-exceeded") throw new Error(TOO_LARGE);
    },
    onEvent: ({ data }) => {
      if (data !== "[DONE]") events.push(JSON.parse(data));
    },
  });
  try {
    for await (const chunk of response.setEncoding("utf8")) {
      parser.feed(chunk as string);
      yield* events.splice(0);
    }
  } catch (error) {
    throw call.signal.aborted ? call.signal.reason : connectionFailed(call, error);
  }
}

/** Reads a complete JSON response. Throws NoAnswer. */
export async function readJsonResponse(call: EndpointCall): Promise<unknown> {
  const response = await open(call);
  try {
    return JSON.parse(await textOf(response));
  } catch (error) {
    throw call.signal.aborted ? call.signal.reason : connectionFailed(call, error);
  }
}

function open(call: EndpointCall): Promise<IncomingMessage> {
  const { target, endpoint, path, body, signal } = call;
  const { tls, client } = target;
  // Without one, Node's own would connect in plain HTTP.
  const agent = call.agent ?? (client && newAgent(target));
  const text = body === undefined ? "" : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const url = urlOf(target, { ...endpoint, fingerprints: undefined });
    const options: CallOptions = {
      ...tls,
      endpoint,
      method: body === undefined ? "GET" : "POST",
      signal,
      agent,
      headers: {
        "content-type": "application/json",
        "content-length": Buffer.byteLength(text),
        ...(target.apiKey === undefined ? {} : { authorization: `Bearer ${target.apiKey}` }),
      },
    };
    const outgoing = (tls === undefined ? request : tlsRequest)(`${url}${path}`, options);
    outgoing.once("error", (error) => {
      // The engine closed an idle connection just as it was reused, so it has not processed the request.
      if (outgoing.reusedSocket && !signal.aborted)
        open({ ...call, agent: newAgent(target) }).then(resolve, reject);
      else reject(signal.aborted ? signal.reason : connectionFailed(call, error));
    });
    outgoing.once("response", (response) => {
      const { statusCode = 0 } = response;
      if (statusCode === 200) return resolve(response);
      textOf(response).then(
        (answer) => reject(refused(call, statusCode, answer)),
        (error: unknown) => reject(connectionFailed(call, error)),
      );
    });
    outgoing.end(text);
  });
}

async function textOf(response: IncomingMessage): Promise<string> {
  const text = await readBodyText(response, MAX_ANSWER_BYTES);
  if (text !== undefined) return text;
  response.destroy();
  throw new Error(TOO_LARGE);
}

function connectionFailed({ target, endpoint, path }: EndpointCall, cause: unknown): MetalbridgeError {
  const why = errorMessage(cause);
  return new MetalbridgeError("NoAnswer", `${urlOf(target, endpoint)}${path}: ${why}`, undefined, { cause });
}

function refused({ target, endpoint, path }: EndpointCall, status: number, answer: string): MetalbridgeError {
  const message = `${urlOf(target, endpoint)}${path} answered ${status}: ${answer.slice(0, ERROR_SHOWN)}`;
  return new MetalbridgeError("NoAnswer", message, undefined, { cause: { status } });
}

/** True if the server rejected the request itself, so that a retry gets the same answer; not if it is only busy. */
export function isRejected(error: unknown): error is MetalbridgeError {
  if (!(error instanceof MetalbridgeError)) return false;
  const { status = 0 } = (error.cause ?? {}) as { readonly status?: number };
  return status >= 400 && status < 500 && status !== 408 && status !== 429;
}
