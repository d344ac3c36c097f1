/** One request to an engine, answered in pieces as they arrive. */
import { Agent, type IncomingMessage, request } from "node:http";
import { Agent as TlsAgent, request as tlsRequest } from "node:https";
import { createParser } from "eventsource-parser";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { errorMessage } from "../../src/util/error-message.ts";
import { type EndpointTarget, type ServerEndpoint, urlOf } from "./target.ts";

export interface EndpointCall {
  readonly target: EndpointTarget;
  readonly endpoint: ServerEndpoint;
  readonly path: string;
  readonly body: object;
  readonly signal: AbortSignal;
  readonly agent?: Agent;
}

const ERROR_SHOWN = 300;

/** Keeps connections for the requests that share it. */
export function newAgent({ tls }: EndpointTarget): Agent {
  return tls === undefined ? new Agent({ keepAlive: true }) : new TlsAgent({ keepAlive: true });
}

/** The data of each server-sent event but the last, `[DONE]`. Throws NoAnswer, or what `signal` was aborted with. */
export async function* streamEvents(call: EndpointCall): AsyncGenerator<unknown> {
  const response = await open(call);
  const events: unknown[] = [];
  const parser = createParser({
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
    throw call.signal.aborted ? call.signal.reason : broken(call, error);
  }
}

/** A JSON answer as a whole. Throws NoAnswer. */
export async function readJsonResponse(call: EndpointCall): Promise<unknown> {
  const response = await open(call);
  try {
    return JSON.parse(await textOf(response));
  } catch (error) {
    throw call.signal.aborted ? call.signal.reason : broken(call, error);
  }
}

function open(call: EndpointCall): Promise<IncomingMessage> {
  const { target, endpoint, path, body, signal, agent } = call;
  const { tls } = target;
  const text = JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const outgoing = (tls === undefined ? request : tlsRequest)(`${urlOf(target, endpoint)}${path}`, {
      ...tls,
      method: "POST",
      signal,
      ...(agent === undefined ? {} : { agent }),
      headers: {
        "content-type": "application/json",
        "content-length": Buffer.byteLength(text),
        ...(target.apiKey === undefined ? {} : { authorization: `Bearer ${target.apiKey}` }),
      },
    });
    outgoing.once("error", (error) => {
      // The engine closed a kept connection at the moment it was used again: nothing was computed.
      if (outgoing.reusedSocket && !signal.aborted)
        open({ ...call, agent: newAgent(target) }).then(resolve, reject);
      else reject(signal.aborted ? signal.reason : broken(call, error));
    });
    outgoing.once("response", (response) => {
      const { statusCode = 0 } = response;
      if (statusCode === 200) return resolve(response);
      textOf(response).then(
        (answer) => reject(refused(call, statusCode, answer)),
        (error: unknown) => reject(broken(call, error)),
      );
    });
    outgoing.end(text);
  });
}

async function textOf(response: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of response.setEncoding("utf8")) text += chunk as string;
  return text;
}

function broken({ target, endpoint, path }: EndpointCall, cause: unknown): MetalbridgeError {
  const why = errorMessage(cause);
  return new MetalbridgeError("NoAnswer", `${urlOf(target, endpoint)}${path}: ${why}`, undefined, { cause });
}

function refused({ target, endpoint, path }: EndpointCall, status: number, answer: string): MetalbridgeError {
  return new MetalbridgeError(
    "NoAnswer",
    `${urlOf(target, endpoint)}${path} answered ${status}: ${answer.slice(0, ERROR_SHOWN)}`,
  );
}
