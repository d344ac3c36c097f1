/** Sealed replicas: certificates of their hosts in EndpointSlices, and the certificate that gateways and relays present to hosts. */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { fingerprintSchema } from "../../src/api/fields/shared.ts";
import { ANNOTATION_FINGERPRINTS, SECRET_TRANSPORT } from "../../src/api/group.ts";
import { HOST_FINGERPRINTS_MAX } from "../../src/api/host.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { SECRETS } from "../../src/kube/kinds.ts";
import type { EndpointSlice, Secret } from "../../src/kube/objects.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import { errorMessage } from "../../src/util/error-message.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import type { EnvoyKeyPair } from "../envoy/types.ts";

/** Certificates that the host of a sealed replica may present. Undefined: the replica is not sealed. Empty: the annotation is malformed. */
export function readFingerprints({ metadata }: EndpointSlice): readonly string[] | undefined {
  const text = metadata.annotations?.[ANNOTATION_FINGERPRINTS];
  if (text === undefined) return undefined;
  const found = text.split(",").map((one) => one.trim());
  const isValid = found.every((one) => fingerprintSchema.safeParse(one).success);
  return isValid && found.length <= HOST_FINGERPRINTS_MAX ? found : [];
}

/** Sorted, so that the order of slices does not change the configuration of Envoy. */
export function fingerprintsOf(slices: readonly EndpointSlice[]): readonly string[] {
  return [...new Set(slices.flatMap((slice) => readFingerprints(slice) ?? []))].toSorted();
}

/** Logs a slice with a malformed annotation, whose replica gets no requests. */
export function warnOfMalformed(slice: EndpointSlice | undefined, log: Log): void {
  if (slice === undefined || readFingerprints(slice)?.length !== 0) return;
  const { namespace, name } = slice.metadata;
  log.warn(
    { namespace, slice: name },
    `the annotation ${ANNOTATION_FINGERPRINTS} is malformed; its replica gets no requests`,
  );
}

/** Throws Error with the reason if the Secret has no certificate with its private key. */
export function readKeyPair({ data = {} }: Secret): EnvoyKeyPair {
  const [certificate = "", key = ""] = ["tls.crt", "tls.key"].map((name) =>
    Buffer.from(data[name] ?? "", "base64").toString(),
  );
  if (!new X509Certificate(certificate).checkPrivateKey(createPrivateKey(key)))
    throw new Error("tls.key is not the private key of tls.crt");
  return { certificate, key };
}

export interface TransportPorts {
  readonly connection: KubeConnection;
  /** Namespace of the Secret. */
  readonly namespace: string;
  /** Called with the certificate for hosts, and again after each rotation. */
  readonly onKeyPair: (pair: EnvoyKeyPair) => void;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** The one Secret. A removed or damaged one changes nothing: hosts decide which certificates they accept. */
export function watchTransport(ports: TransportPorts): { readonly whenRead: Promise<void> } {
  const { log, namespace, onKeyPair } = ports;
  const read = Promise.withResolvers<void>();
  startReflector<Secret>({
    ...ports,
    kind: SECRETS,
    fieldSelector: `metadata.name=${SECRET_TRANSPORT}`,
    onChange: (_key, secret) => {
      // The chart creates it empty, and the controller fills it with the first sealed service.
      if (secret?.data?.["tls.crt"] === undefined) return;
      try {
        onKeyPair(readKeyPair(secret));
      } catch (error) {
        const problem = errorMessage(error);
        log.warn({ namespace, secret: SECRET_TRANSPORT, problem }, "the Secret has no valid certificate");
      }
    },
    onSynced: read.resolve,
    // A fleet without sealed replicas may not grant the right.
    onFailure: ({ kind }) => {
      if (kind === "forbidden") read.resolve();
    },
  });
  return { whenRead: read.promise };
}
