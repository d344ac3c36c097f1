/** The identity that this host proves to other hosts: a key pair with a self-signed certificate, new at each start and never on disk. */
import { X509Certificate } from "node:crypto";
import type { TLSSocket } from "node:tls";
import { createCertificate, type KeyedCertificate } from "../../src/crypto/certificate.ts";

export interface PeerIdentity extends KeyedCertificate {
  /** SHA-256 of the certificate: 64 hex digits in lower case. */
  readonly fingerprint: string;
}

/**
 * The API server vouches for the certificate, because only this host may write the status of its Host. The certificate's dates
 * are ignored: the fingerprint in the Host's status decides, and hosts' clocks may be wrong.
 */
export function createPeerIdentity(hostName: string): PeerIdentity {
  const keyed = createCertificate({ name: hostName });
  return { ...keyed, fingerprint: plain(new X509Certificate(keyed.cert).fingerprint256) };
}

/** The fingerprint of the certificate whose key the other side has proved to have; undefined if it sent none. */
export function fingerprintOf(socket: TLSSocket): string | undefined {
  const fingerprint = socket.getPeerX509Certificate()?.fingerprint256;
  return fingerprint === undefined ? undefined : plain(fingerprint);
}

/** The name in the other side's certificate, which determines the Host to read and proves nothing. */
export function claimedName(socket: TLSSocket): string | undefined {
  const { subject = "" } = socket.getPeerX509Certificate() ?? {};
  return /^CN=([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)$/.exec(subject)?.[1];
}

function plain(fingerprint: string): string {
  return fingerprint.replaceAll(":", "").toLowerCase();
}
