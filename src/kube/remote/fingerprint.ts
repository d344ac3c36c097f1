/** Fingerprints of self-signed certificates, by which hosts recognize each other and clients recognize hosts. */
import type { X509Certificate } from "node:crypto";
import type { TLSSocket } from "node:tls";

/** The fingerprint of the certificate whose key the other side has proved to have; undefined if it sent none. */
export function fingerprintOf(socket: TLSSocket): string | undefined {
  const certificate = socket.getPeerX509Certificate();
  return certificate === undefined ? undefined : fingerprintOfCertificate(certificate);
}

/** SHA-256 of the certificate: 64 hex digits in lower case. */
export function fingerprintOfCertificate({ fingerprint256 }: X509Certificate): string {
  return fingerprint256.replaceAll(":", "").toLowerCase();
}
