/** Connections to the endpoints of a service for bytes of other programs. */
import { connect, type Socket } from "node:net";
import type { KeyedCertificate } from "../../src/crypto/certificate.ts";
import { connectPinned } from "../../src/kube/remote/pinned-connection.ts";
import { errorMessage } from "../../src/util/error-message.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { printNote } from "../program/output.ts";
import { clientOf, type ServerEndpoint } from "./target.ts";

/** Connects to an endpoint, and calls back once requests may be sent; without a socket, if none can be sent. */
export type Connect = (endpoint: ServerEndpoint, done: (engine: Socket | undefined) => void) => void;

const CONNECT_MS = 10_000;

/** Reads the certificate for sealed endpoints with the first connection and after each failure, which it prints once. */
export function createConnector(cluster: Pick<Cluster, "client">): Connect {
  let reading: Promise<KeyedCertificate | undefined> | undefined;
  let problem: string | undefined;
  const fail = (message: string): void => {
    reading = undefined;
    if (message !== problem) printNote(message);
    problem = message;
  };
  return (endpoint, done) => {
    const { address: host, port, fingerprints } = endpoint;
    if (fingerprints === undefined) return done(connect({ host, port, timeout: CONNECT_MS }));
    reading ??= clientOf(cluster, [endpoint]);
    const open = (client: KeyedCertificate | undefined) => {
      if (client === undefined) return done(undefined);
      const identity = { ...client, timeoutMs: CONNECT_MS };
      connectPinned({ host, port, fingerprints }, identity, (error, engine) => {
        if (error === null) problem = undefined;
        else fail(`${host} port ${port}: ${error.message}`);
        done(error === null ? engine : undefined);
      });
    };
    reading.then(open, (error: unknown) => {
      fail(errorMessage(error));
      done(undefined);
    });
  };
}
