/** The console's part of the server: routes under /console. */
import type { FastifyInstance } from "fastify";
import type { MayAccess, ReaderOf } from "./reader.ts";

/** What routes of the console need to know about the person who calls. */
export interface ConsoleAccess {
  readonly readerOf: ReaderOf;
  readonly mayAccess: MayAccess;
}

/** Adds routes to the scope whose requests were checked: header or same origin, and a session. */
export type MountRoutes = (scope: FastifyInstance, access: ConsoleAccess) => void;
