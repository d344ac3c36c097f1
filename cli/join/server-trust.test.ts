/** Which certificate authorities are accepted from the command line, and which refusals of a server certificate last. */
import { expect, test } from "vitest";
import { failureOfNetwork } from "../../src/kube/errors.ts";
import { selfSigned } from "../../test/fixtures/self-signed.ts";
import { explainUntrusted, isPermanentlyUntrusted, readCaData } from "./server-trust.ts";

const pem = selfSigned().cert.toString();
const base64 = (text: string) => Buffer.from(text).toString("base64");

test("--ca-data is the base64 of PEM certificates, also of several and with line breaks", () => {
  expect(readCaData(base64(pem))).toBe(pem);
  expect(readCaData(base64(`# the old one\n${pem}${pem}`))).toContain("# the old one");
  expect(readCaData(base64(pem).replaceAll(/.{64}/g, "$&\n"))).toBe(pem);
});

test.each([
  ["nothing", ""],
  ["a path", "/etc/kubernetes/pki/ca.crt"],
  ["text that only looks like base64", "garbage"],
  ["PEM without base64", pem],
  ["base64 that was cut off", base64(pem).slice(0, 400)],
  ["a key in place of a certificate", base64(selfSigned().key.toString())],
  ["a damaged certificate", base64(pem.replace(/\n.{8}/, "\nAAAAAAAA"))],
  ["a good and a damaged certificate", base64(`${pem}${pem.replace(/\n.{8}/, "\nAAAAAAAA")}`)],
])("--ca-data with %s is refused", (_, text) => {
  expect(readCaData(text)).toBeUndefined();
});

const failureOf = (code: string) =>
  failureOfNetwork(Object.assign(new Error("as node says"), { code }), "https://10.0.0.5:6443");

test.each([
  ["SELF_SIGNED_CERT_IN_CHAIN", /check --server, --ca-data and this machine's clock/, true],
  ["UNABLE_TO_VERIFY_LEAF_SIGNATURE", /--ca-data/, true],
  ["ERR_TLS_CERT_ALTNAME_INVALID", /pass --server with a name or address that the certificate has/, true],
  ["CERT_NOT_YET_VALID", /this machine's clock \(20/, false],
  ["CERT_HAS_EXPIRED", /this machine's clock/, false],
])("%s has its remedy, and is retried only if it may pass", (code, summary, isFinal) => {
  expect(explainUntrusted(failureOf(code), "metalbridge host add m-1")).toMatchObject({
    code: "ApiCertificateUntrusted",
    message: "https://10.0.0.5:6443: as node says",
    remedy: { summary: expect.stringMatching(summary) },
  });
  expect(isPermanentlyUntrusted(failureOf(code))).toBe(isFinal);
});

test("a server that is not reachable yet is no matter of trust", () => {
  for (const code of ["ECONNREFUSED", "ENOTFOUND", "ETIMEDOUT", "ECONNRESET"])
    expect(explainUntrusted(failureOf(code), "metalbridge host add m-1")).toBeUndefined();
});
