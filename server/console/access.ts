/** What each route of the console is given. */
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { MayAccess, Reader, ReaderOf } from "./reader.ts";

/** What routes of the console need to know about the person who calls. */
export interface ConsoleAccess {
  readonly readerOf: ReaderOf;
  /** The reader of a route that is called with a session. */
  readonly requireReader: (request: FastifyRequest) => Promise<Reader>;
  readonly mayAccess: MayAccess;
}

/**
 * Adds routes whose requests were checked: header or same origin, and a session. Each route sets `config.calledBy`. What a
 * route throws as MetalbridgeError is sent as a refusal.
 */
export type MountRoutes = (scope: FastifyInstance, access: ConsoleAccess) => void;
