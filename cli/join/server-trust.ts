/** Trust in the API server that a machine joins: the certificate authority from the command line, and a server certificate that is refused. */
import { X509Certificate } from "node:crypto";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { explainFailure } from "../../src/kube/errors.ts";
import type { ApiFailure } from "../../src/kube/types.ts";

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;
/** The clock of a machine that has just started may be set soon, and a server may renew its certificate. */
const MAY_PASS: readonly string[] = ["CERT_NOT_YET_VALID", "CERT_HAS_EXPIRED"];

/** The PEM text in `--ca-data`; undefined if it is not base64, or has no certificate or a damaged one. */
export function readCaData(text: string): string | undefined {
  const data = text.replaceAll(/\s/g, "");
  if (!BASE64.test(data)) return undefined;
  const pem = Buffer.from(data, "base64").toString("utf8");
  const certificates = pem.match(CERTIFICATE) ?? [];
  try {
    for (const certificate of certificates) new X509Certificate(certificate);
  } catch {
    return undefined;
  }
  return certificates.length > 0 ? pem : undefined;
}

/** What to do about a server certificate that is refused; undefined for every other failure. `command` is for an administrator. */
export function explainUntrusted(failure: ApiFailure, command: string): MetalbridgeError | undefined {
  const { code, message } = explainFailure(failure);
  if (code !== "ApiCertificateUntrusted") return undefined;
  if (failure.reason.includes("ALTNAME"))
    return new MetalbridgeError(code, message, {
      summary:
        "pass --server with a name or address that the certificate has (the message lists them), or ask for a join command with one",
      command: `${command} --server <url>`,
    });
  const now = new Date().toISOString();
  return new MetalbridgeError(code, message, {
    summary: `check --server, --ca-data and this machine's clock (${now}); if they are right, the cluster's certificate authority has changed: ask for a new join command`,
    command,
  });
}

/** False for a certificate that a retry may find accepted. */
export function isPermanentlyUntrusted({ reason }: ApiFailure): boolean {
  return !MAY_PASS.includes(reason);
}
