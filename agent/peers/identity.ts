/** The identity that this host proves to other hosts: a key pair with a self-signed certificate, new at each start and never on disk. */
import { X509Certificate } from "node:crypto";
import type { TLSSocket } from "node:tls";
import { createCertificate, type KeyedCertificate } from "../../src/crypto/certificate.ts";
import { fingerprintOfCertificate } from "../../src/kube/remote/fingerprint.ts";

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
  return { ...keyed, fingerprint: fingerprintOfCertificate(new X509Certificate(keyed.cert)) };
}

/** The name in the other side's certificate, which determines the Host to read and proves nothing. */
export function claimedName(socket: TLSSocket): string | undefined {
  const { subject = "" } = socket.getPeerX509Certificate() ?? {};
  return /^CN=([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)$/.exec(subject)?.[1];
}
