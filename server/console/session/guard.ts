/** Refuses requests that pages of other sites make a browser send. */
import type { FastifyRequest } from "fastify";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { CONSOLE_HEADER } from "../../../src/console/protocol.ts";
import { isLoopback } from "../../../src/http/loopback.ts";

/**
 * How a route is called. `page`: by the address bar or a link, without a session. `stream`: by a GET with the session.
 * `call`: by a script of the console, with the session. `sign-in`: the same without a session.
 */
export type CalledBy = "page" | "stream" | "call" | "sign-in";

declare module "fastify" {
  interface FastifyContextConfig {
    /** Set on the routes of the console, which the density API's own authorization does not guard. */
    calledBy?: CalledBy;
  }
}

/** Throws ConsoleRequestRefused. `isOnLoopback`: the server listens for this machine only. */
export function checkOrigin(request: FastifyRequest, calledBy: CalledBy, isOnLoopback: boolean): void {
  // A name that an attacker has pointed at this machine.
  if (isOnLoopback && !calledNameOf(request).isLoopback)
    throw refused(`${JSON.stringify(request.headers.host ?? "")} is not a name of this machine`);
  if (calledBy === "page") return;
  if (calledBy !== "stream") requireHeader(request);
  checkSender(request);
}

/** Throws ConsoleRequestRefused without the header that no form or link of another site can send. */
export function requireHeader({ headers }: FastifyRequest): void {
  if (headers[CONSOLE_HEADER] === undefined) throw refused(`the header ${CONSOLE_HEADER} is missing`);
}

/** Name and port by which the browser called. */
export function calledNameOf({ headers: { host = "" } }: Pick<FastifyRequest, "headers">): {
  readonly isLoopback: boolean;
  readonly port: string;
} {
  const url = URL.parse(`http://${host}`);
  const name = url?.hostname.replace(/^\[(.*)\]$/, "$1") ?? "";
  return { isLoopback: name === "localhost" || isLoopback(name), port: url?.port ?? "" };
}

function checkSender({ headers }: FastifyRequest): void {
  const { origin, host = "" } = headers;
  const sender = origin === undefined ? undefined : URL.parse(origin);
  // Parsed with the sender's scheme, a host that names its default port is the same one.
  if (
    sender !== undefined &&
    (sender === null || sender.host !== URL.parse(`${sender.protocol}//${host}`)?.host)
  )
    throw refused(`it came from ${JSON.stringify(origin?.slice(0, 200))}`);
  const site = headers["sec-fetch-site"];
  if (site !== undefined && site !== "same-origin" && site !== "none")
    throw refused(`it came from another site (${String(site).slice(0, 40)})`);
}

function refused(why: string): MetalbridgeError {
  return new MetalbridgeError("ConsoleRequestRefused", `the request was refused: ${why}`);
}
