/** A listener for API servers, with the certificate of a Secret. It uses each new one without closing connections. */
import type { RequestListener } from "node:http";
import { createServer, type Server } from "node:https";
import { limitConnections } from "../../../src/http/connections.ts";
import { listenOn, retryListen } from "../../../src/http/listener.ts";
import type { Secret } from "../../../src/kube/objects.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import { certificatesIn } from "./rotation.ts";

export interface CertifiedListener {
  /** Called with each change of the Secret. */
  readonly onSecret: (secret: Secret | undefined) => void;
  readonly at: () => "waiting" | "trying" | "listening";
  /** The last failure to listen, as the end of a sentence. */
  readonly failure: () => string;
}

export interface CertifiedListenerOptions {
  readonly handle: RequestListener;
  /** For messages, for example "the preflight webhook". */
  readonly what: string;
  /** Authorities of clients, read with each certificate. Absent: clients need no certificate. */
  readonly clientAuthorities?: () => string | undefined;
  readonly address: string;
  /** 0 takes a free one. */
  readonly port: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly onListening?: ((port: number) => void) | undefined;
}

const LISTEN_RETRY_MS = 1_000;
const REQUEST_MS = 10_000;
/** All API servers may connect from one address. */
const CONNECTIONS = { total: 256, perAddress: 256 };
/** API servers (Go) close an idle connection after 90 s. A server that closed it first could drop a request in flight. */
const KEEP_ALIVE_MS = 120_000;

/** Listens once the Secret has a certificate. */
export function createCertifiedListener(options: CertifiedListenerOptions): CertifiedListener {
  const { what, address, port, clock, log, signal, onListening } = options;
  const server = createLimitedServer(options);
  let at: "waiting" | "trying" | "listening" = "waiting";
  let failure = "";
  const listen = () => {
    at = "trying";
    const where = { address, port, signal };
    retryListen(() => listenOn(server, where), where, {
      clock,
      log,
      what,
      retryMs: LISTEN_RETRY_MS,
      onListening: (bound) => {
        at = "listening";
        onListening?.(bound);
      },
      onFailed: ({ message }) => {
        failure = `: ${message}`;
      },
    });
  };
  return {
    onSecret: (secret) => {
      if (useCertificate(server, options, secret) && at === "waiting") listen();
    },
    at: () => at,
    failure: () => failure,
  };
}

function createLimitedServer({ handle, clientAuthorities }: CertifiedListenerOptions): Server {
  const limits = { requestTimeout: REQUEST_MS, headersTimeout: REQUEST_MS, handshakeTimeout: REQUEST_MS };
  // A client without a certificate is answered, with a refusal.
  const client = clientAuthorities && { requestCert: true, rejectUnauthorized: false };
  const server = createServer({ ...limits, ...client, keepAliveTimeout: KEEP_ALIVE_MS }, handle);
  limitConnections(server, CONNECTIONS);
  return server;
}

/** Returns false if the Secret has no usable certificate. The previous certificate then stays. */
function useCertificate(
  server: Server,
  { what, log, clientAuthorities }: CertifiedListenerOptions,
  secret: Secret | undefined,
): boolean {
  const { "tls.crt": cert, "tls.key": key } = certificatesIn(secret);
  const ca = clientAuthorities?.();
  if (cert === undefined || key === undefined || (clientAuthorities !== undefined && ca === undefined))
    return false;
  try {
    server.setSecureContext({ cert, key, ca });
    return true;
  } catch (err) {
    log.warn({ err }, `${what}: the certificate in the Secret cannot be used`);
    return false;
  }
}
