/** The routes of a small listener: finds the handler of a request by method and path, and sends what it returns. */
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { Pipelines } from "./pipelines.ts";

export interface HttpResponse {
  readonly status: number;
  /** A string or bytes are sent as plain text unless `type` says otherwise, anything else as JSON. */
  readonly body: string | Uint8Array | Readonly<Record<string, unknown>>;
  readonly type?: string;
}

/** Undefined: the handler has sent the response, or sends it. */
type RoutedResponse = HttpResponse | undefined;

export interface RoutedRequest {
  /** The segments of the path that the route leaves open, as the client sent them. */
  readonly parameters: readonly string[];
  readonly query: URLSearchParams;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

export type RouteHandler = (routed: RoutedRequest) => RoutedResponse | Promise<RoutedResponse>;

/**
 * Handlers by path without the query, such as `/metrics`, `/v1/logs/*` (`*` is any segment) or `POST /reload`. Without a method, a
 * route is for GET and HEAD; a HEAD runs the whole handler.
 */
export type Routes = Readonly<Record<string, RouteHandler>>;

export interface RouteOptions {
  readonly routes: Routes;
  /** Handles every other request, with any method. Absent: 404. */
  readonly otherwise?: ((request: IncomingMessage) => Promise<HttpResponse>) | undefined;
  /** Called before the path is read. Undefined: the request is allowed. */
  readonly admit?:
    | ((request: IncomingMessage, response: ServerResponse) => RoutedResponse | Promise<RoutedResponse>)
    | undefined;
  /** Renders the listener's own refusals. Default: as plain text. */
  readonly refuse?: (status: 404 | 405, message: string) => HttpResponse;
  /** The response to a request whose handler failed. Default: the error as plain text. */
  readonly onError?: (error: unknown) => HttpResponse;
  /** Called when the handler is done and its response is sent; the client may not have read it. */
  readonly onResponse?: (response: ServerResponse) => void;
}

/** Clients do not send more requests before the first response, and each response can be large. */
const MAX_PIPELINED = 2;

export function createRoutes(options: RouteOptions): RequestListener {
  const { onError = (error) => ({ status: 500, body: `${String(error)}\n` }) } = options;
  const table = Object.entries(options.routes).map(([key, handle]) => {
    const [path = "", method] = key.split(" ").reverse();
    return { methods: method === undefined ? ["GET", "HEAD"] : [method], segments: path.split("/"), handle };
  });
  const pipelines = new Pipelines();
  return (request, response) => {
    const { socket } = request;
    if (!pipelines.begin(socket, MAX_PIPELINED)) return;
    response.once("close", () => pipelines.end(socket));
    void answer(request, response, options, table)
      .catch(onError)
      .then((result) => result && send(response, result))
      .finally(() => options.onResponse?.(response));
  };
}

interface Route {
  readonly methods: readonly string[];
  readonly segments: readonly string[];
  readonly handle: RouteHandler;
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  { admit, otherwise, refuse = (status, message) => ({ status, body: `${message}\n` }) }: RouteOptions,
  table: readonly Route[],
): Promise<RoutedResponse> {
  const refused = await admit?.(request, response);
  if (refused !== undefined) return refused;
  const [path = "", query = ""] = (request.url ?? "").split("?");
  const sent = path.split("/");
  const matching = table.filter(({ segments }) => matches(segments, sent));
  const { method = "GET" } = request;
  const route = matching.find(({ methods }) => methods.includes(method));
  if (route !== undefined) {
    const parameters = sent.filter((_, index) => route.segments[index] === "*");
    return route.handle({ parameters, query: new URLSearchParams(query), request, response });
  }
  if (matching.length === 0) return otherwise?.(request) ?? refuse(404, "not found");
  const allowed = matching.flatMap(({ methods }) => methods);
  response.setHeader("allow", allowed.join(", "));
  return refuse(405, `only ${allowed.join(" and ")} are allowed`);
}

function matches(segments: readonly string[], sent: readonly string[]): boolean {
  return (
    segments.length === sent.length &&
    segments.every((segment, index) => (segment === "*" ? sent[index] !== "" : segment === sent[index]))
  );
}

function send(
  response: ServerResponse,
  { status, body, type = "text/plain; charset=utf-8" }: HttpResponse,
): void {
  if (response.headersSent) return void response.destroy();
  const isText = typeof body === "string" || body instanceof Uint8Array;
  response.writeHead(status, { "content-type": isText ? type : "application/json" });
  response.end(isText ? body : JSON.stringify(body));
}
