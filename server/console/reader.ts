/** A signed-in person, and the connection that carries that person's own rights. */
import type { FastifyInstance, FastifyRequest } from "fastify";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { AccessQuestion } from "../../src/console/protocol.ts";
import { connect, type KubeConnection } from "../../src/kube/client/connect.ts";
import type { KubeconfigSource } from "../../src/kube/client/kubeconfig.ts";
import { explainFailure } from "../../src/kube/errors.ts";
import { reviewKeyOf } from "../../src/kube/review/reviews.ts";
import { createSelfReviews, identifySelf } from "../../src/kube/review/self-reviews.ts";
import { setBounded } from "../../src/util/bounded-map.ts";
import type { Clock } from "../../src/util/ports.ts";
import type { SessionData } from "./session/session.ts";

export interface Reader {
  /** The same for all requests with one credential. Contains no secret. */
  readonly id: string;
  readonly user: string;
  /** That of the credential: its objects are shown where the reader may list them, even if it has none yet. */
  readonly namespace: string | undefined;
  readonly connection: KubeConnection;
}

/** Undefined without a valid session. Never rejects; does not ask the API server whether the token is still accepted. */
export type ReaderOf = (request: FastifyRequest) => Promise<Reader | undefined>;

/**
 * Reviews the reader's rights with the reader's own credentials; cached for seconds. Rejects with MetalbridgeError
 * (`ApiUnauthorized` after the token has expired, `ApiUnavailable` …) if the API server gives no answer.
 */
export type MayAccess = (reader: Reader, question: AccessQuestion) => Promise<boolean>;

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

export interface Readers {
  /** Without a token: with the credentials of the server's own kubeconfig. */
  readonly of: (session: Pick<SessionData, "token"> & { readonly user?: string }) => Promise<Reader>;
  /** The user of a token. Rejects with MetalbridgeError. */
  readonly identify: (token: string) => Promise<string>;
  readonly close: () => void;
}

const USER_AGENT = "metalbridge-console";
/** Connections beyond it are forgotten, the oldest first; their sockets close once they are idle. */
const MAX_READERS = 256;
/** Concurrent requests per reader, beside streams. */
const MAX_REQUESTS = 12;

/** In the name of every ServiceAccount. */
const ACCOUNT = /^system:serviceaccount:([^:]+):/;

/** `namespace` is that of the server's own kubeconfig. */
export function createReaders(cluster: KubeconfigSource, namespace?: string): Readers {
  const connections = new Map<string, Promise<KubeConnection>>();
  const open = (token: string | undefined) =>
    connect({ ...cluster, token, userAgent: USER_AGENT, maxRequests: MAX_REQUESTS });
  return {
    of: async ({ token, user = "" }) => {
      const id = token === undefined ? "local" : reviewKeyOf(token);
      const connection = connections.get(id) ?? open(token);
      setBounded(connections, id, connection, MAX_READERS);
      // A kubeconfig that is being rewritten can be read a moment later.
      connection.catch(() => connections.delete(id));
      const own = token === undefined ? namespace : ACCOUNT.exec(user)?.[1];
      return { id, user, namespace: own, connection: await connection };
    },
    identify: async (token) => {
      const connection = await open(token);
      try {
        const identity = await identifySelf(connection);
        if (identity.ok) return identity.value.username ?? "";
        if (identity.error.kind !== "unauthorized") throw explainFailure(identity.error);
        throw new MetalbridgeError("ConsoleSignInRefused", "the API server does not accept the token");
      } finally {
        connection.close();
      }
    },
    close: () => {
      for (const connection of connections.values())
        connection.then(
          (one) => one.close(),
          () => {},
        );
      connections.clear();
    },
  };
}

export function createMayAccess(clock: Clock): MayAccess {
  const review = createSelfReviews(clock);
  return async ({ id, connection }, { verb, group, resource, subresource, namespace, name }) => {
    const access = { verb, group, resource, subresource, namespace, name };
    const verdict = await review(connection, id, access);
    if (verdict.at === "failed") throw explainFailure(verdict.failure);
    return verdict.at === "allowed";
  };
}
