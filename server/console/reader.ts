/** A signed-in person, and the connection that carries that person's own rights. */
import type { FastifyRequest } from "fastify";
import type { AccessQuestion } from "../../src/console/protocol.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";

export interface Reader {
  /** The same for all requests with one credential. Contains no secret. */
  readonly id: string;
  readonly user: string;
  readonly connection: KubeConnection;
}

/** Undefined without a valid session. Never rejects; does not ask the API server whether the token is still accepted. */
export type ReaderOf = (request: FastifyRequest) => Promise<Reader | undefined>;

/**
 * Reviews the reader's rights with the reader's own credentials; cached for seconds. Rejects with MetalbridgeError
 * (`ApiUnauthorized` after the token has expired, `ApiUnavailable` …) if the API server gives no answer.
 */
export type MayAccess = (reader: Reader, question: AccessQuestion) => Promise<boolean>;
