/** Other programs accept the certificate, which is created without an external tool. */
import { X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import { expect, test } from "vitest";
import { createPeerIdentity } from "./identity.ts";

test("the certificate names the host, is signed by its own key, and has the fingerprint that is published", () => {
  const identity = createPeerIdentity("mac-studio-1");
  const certificate = new X509Certificate(identity.cert);
  expect(certificate.subject).toBe("CN=mac-studio-1");
  expect(certificate.verify(certificate.publicKey)).toBe(true);
  expect(certificate.fingerprint256.replaceAll(":", "").toLowerCase()).toBe(identity.fingerprint);
  expect(createPeerIdentity("mac-studio-1").fingerprint).not.toBe(identity.fingerprint);
});

test("TLS takes the certificate of a name of any length that a Host may have", () => {
  for (let length = 1; length <= 63; length += 1) {
    const name = "a".repeat(length);
    const { key, cert } = createPeerIdentity(name);
    createSecureContext({ key, cert });
    expect(new X509Certificate(cert).subject).toBe(`CN=${name}`);
  }
});
