/** What this host proves itself with to other hosts: a key pair with a certificate of its own, new at each start and never on disk. */
import { X509Certificate } from "node:crypto";
import type { TLSSocket } from "node:tls";
import { createCertificate, type KeyedCertificate } from "../../src/crypto/certificate.ts";

export interface PeerIdentity extends KeyedCertificate {
  /** SHA-256 of the certificate: 64 hex digits in lower case. */
  readonly fingerprint: string;
}

/**
 * Self-signed: the API server vouches for it, since only this host may write the status of its Host. Nothing reads its
 * dates: the fingerprint in the Host's status decides, and hosts' clocks may be wrong.
 */
export function createPeerIdentity(hostName: string): PeerIdentity {
  const keyed = createCertificate({ name: hostName });
  return { ...keyed, fingerprint: plain(new X509Certificate(keyed.cert).fingerprint256) };
}

/** Of the certificate whose key the other side has proved to hold; undefined where it sent none. */
export function fingerprintOf(socket: TLSSocket): string | undefined {
  const fingerprint = socket.getPeerX509Certificate()?.fingerprint256;
  return fingerprint === undefined ? undefined : plain(fingerprint);
}

/** The name that the other side gives itself: where to look, no proof. */
export function claimedName(socket: TLSSocket): string | undefined {
  return /^CN=([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)$/.exec(
    socket.getPeerX509Certificate()?.subject ?? "",
  )?.[1];
}

function plain(fingerprint: string): string {
  return fingerprint.replaceAll(":", "").toLowerCase();
}
