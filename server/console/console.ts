/** The console's part of the server: routes under /console, each with the reader's own rights. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { CONSOLE_PATH, type SignIn } from "../../src/console/protocol.ts";
import type { KubeconfigSource } from "../../src/kube/client/kubeconfig.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { type AuthorizationResult, accessOf, type Right } from "../rest/authorize.ts";
import { mountAssets } from "./assets.ts";
import { parseBody } from "./body.ts";
import { type ConsoleGateway, mountGateway } from "./gateway.ts";
import { createOidc, type OidcSettings } from "./oidc.ts";
import { mountProxy } from "./proxy.ts";
import {
  type ConsoleAccess,
  createMayAccess,
  createReaders,
  type MountRoutes,
  type Reader,
  type ReaderOf,
} from "./reader.ts";
import { askToSignIn, refuseThrown } from "./refusal.ts";
import { type CalledBy, checkOrigin } from "./session/guard.ts";
import { createSeal } from "./session/seal.ts";
import { createSessions, type SessionData } from "./session/session.ts";
import { mountSignIn, type OneTimeCodes } from "./sign-in.ts";

export interface ConsoleOptions {
  readonly cluster: KubeconfigSource;
  /** Folder with the built pages. */
  readonly folder: string;
  readonly version: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly isReadOnly: boolean;
  /** The server listens for this machine only. */
  readonly isOnLoopback: boolean;
  /** Shared by all replicas of the server. */
  readonly sessionSecret?: Buffer | undefined;
  readonly gateway?: ConsoleGateway | undefined;
  /** Readers sign in with a code, and act with the credentials of `cluster`. */
  readonly codes?: OneTimeCodes | undefined;
  /** The one that those readers see without the right to all namespaces. */
  readonly namespace?: string | undefined;
  /** Readers sign in with an identity provider, whose tokens the API server accepts. */
  readonly oidc?: OidcSettings | undefined;
  /** Routes of other parts, such as the live stream. */
  readonly routes?: readonly MountRoutes[];
}

export interface Console {
  readonly mount: (app: FastifyInstance) => void;
  /** Authorizes a request to the density API by the session, which `reply` renews. Undefined without a session. */
  readonly authorize: (
    request: FastifyRequest,
    right: Right,
    reply?: FastifyReply,
  ) => Promise<AuthorizationResult | undefined>;
  readonly close: () => void;
}

export function createConsole(options: ConsoleOptions): Console {
  const { clock, log, isOnLoopback, codes } = options;
  const seal = createSeal(options.sessionSecret);
  const sessions = createSessions(seal, { clock, isLocal: codes !== undefined });
  const readers = createReaders(options.cluster, options.namespace);
  const mayAccess = createMayAccess(clock);
  const oidc = options.oidc && createOidc({ ...options.oidc, seal, sessions, readers, clock, log });
  const signIn: SignIn["by"] = codes !== undefined ? "code" : oidc !== undefined ? "oidc" : "token";
  const current = new WeakMap<FastifyRequest, SessionData>();
  const readerOf: ReaderOf = async (request) => {
    const session = current.get(request) ?? sessions.read(request);
    // A stream and a watch ask again for their request, whose session may have expired since.
    return session === undefined || session.untilMs <= clock.nowMs() ? undefined : readers.of(session);
  };
  const requireReader = async (request: FastifyRequest): Promise<Reader> => readers.of(sessionOf(request));
  const sessionOf = (request: FastifyRequest): SessionData => {
    const session = current.get(request);
    if (session === undefined) throw new Error("the route is not called with a session");
    return session;
  };
  const admit = async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
    const { calledBy = "call" } = request.routeOptions.config as { readonly calledBy?: CalledBy };
    checkOrigin(request, calledBy, isOnLoopback);
    reply.header("cache-control", "no-store");
    if (calledBy === "page" || calledBy === "sign-in") return undefined;
    return (await openSession(request, reply)) === undefined ? askToSignIn(reply, signIn) : undefined;
  };
  const openSession = async (request: FastifyRequest, reply: FastifyReply) => {
    const read = sessions.read(request);
    const session = oidc === undefined ? read : await oidc.renew(request, reply, read);
    if (session !== undefined) current.set(request, session);
    return session;
  };
  const access = { readerOf, requireReader, mayAccess };
  return {
    mount: (app) => {
      void app.register(async (scope) => {
        scope.addHook("onRequest", admit);
        scope.setErrorHandler((error: Error, _, reply) => refuseThrown(reply, error, { by: signIn, log }));
        takeBodiesAsText(scope);
        mountAssets(scope, options.folder);
        mountSignIn(scope, { sessions, readers, clock, codes, oidc, sessionOf, facts: factsOf(options) });
        oidc?.mount(scope);
        mountRights(scope, access);
        mountProxy(scope, access, options);
        mountGateway(scope, options.gateway, sessionOf);
        for (const mountRoutes of options.routes ?? []) mountRoutes(scope, access);
      });
    },
    authorize: async (request, right, reply) => {
      try {
        checkOrigin(request, "call", isOnLoopback);
        if (reply !== undefined) await openSession(request, reply);
        const reader = await readerOf(request);
        if (reader === undefined) return undefined;
        const isAllowed = await mayAccess(reader, accessOf(right));
        return { at: isAllowed ? "allowed" : "forbidden", user: reader.user };
      } catch (error) {
        return verdictOfError(error);
      }
    },
    close: () => readers.close(),
  };
}

function factsOf({ isReadOnly, gateway, version }: ConsoleOptions) {
  return { isReadOnly, hasGateway: gateway !== undefined, gatewayUrl: gateway?.publicUrl ?? "", version };
}

/** Bodies for the API server are passed on unchanged; those of own calls are parsed by their routes. */
function takeBodiesAsText(scope: FastifyInstance): void {
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser("*", { parseAs: "string" }, (_, body, done) => done(null, body));
}

function verdictOfError(error: unknown): AuthorizationResult {
  if (!(error instanceof MetalbridgeError)) throw error;
  const isStranger = error.code === "ApiUnauthorized" || error.code === "ConsoleRequestRefused";
  return isStranger ? { at: "unauthenticated" } : { at: "unavailable", why: error.message };
}

const MAX_QUESTIONS = 64;

const text = z.string().max(253);
const bodySchema = z.strictObject({
  questions: z
    .array(
      z.strictObject({
        verb: text.min(1),
        group: text,
        resource: text.min(1),
        subresource: text.optional(),
        namespace: text.optional(),
        name: text.optional(),
      }),
    )
    .max(MAX_QUESTIONS),
});

/** POST /console/rights: which actions the reader may take, so that pages disable the others. */
function mountRights(scope: FastifyInstance, { requireReader, mayAccess }: ConsoleAccess): void {
  scope.post(`${CONSOLE_PATH}/rights`, { config: { calledBy: "call" } }, async (request) => {
    const { questions } = parseBody(bodySchema, request.body);
    const reader = await requireReader(request);
    return { allowed: await Promise.all(questions.map((question) => mayAccess(reader, question))) };
  });
}
