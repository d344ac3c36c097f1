import { expect, test } from "vitest";
import { createCertificate } from "../../src/crypto/certificate.ts";
import type { EndpointSlice } from "../../src/kube/objects.ts";
import { fingerprintsOf, readFingerprints, readKeyPair } from "./sealed.ts";
import { readyEndpoints } from "./served-model.ts";

const [A, B, C] = ["a", "b", "c"].map((digit) => digit.repeat(64)) as [string, string, string];

const slice = (fingerprints?: string): EndpointSlice => ({
  metadata: {
    ...{ namespace: "apps", name: "s" },
    annotations: fingerprints === undefined ? {} : { "metalbridge.dev/fingerprints": fingerprints },
  },
  addressType: "IPv4",
  endpoints: [{ addresses: ["192.0.2.1"] }],
  ports: [{ port: 8080 }],
});

test.each([
  [undefined, undefined],
  [A, [A]],
  [`${A},${B}`, [A, B]],
  [`${A}, ${B}`, [A, B]],
  ["", []],
  [`${A},`, []],
  [A.toUpperCase(), []],
  [A.slice(1), []],
  [`${A},sha256:${B}`, []],
  [`${A},${B},${C}`, []],
])(
  "the annotation %j names the certificates %j, and an endpoint without any is not used",
  (text, expected) => {
    expect(readFingerprints(slice(text))).toEqual(expected);
    expect(readyEndpoints(slice(text))).toHaveLength(expected?.length === 0 ? 0 : 1);
  },
);

test("a service has the certificates of all its hosts, in the same order for each order of slices", () => {
  const slices = [slice(`${B},${A}`), slice(undefined), slice("x"), slice(C)];
  expect(fingerprintsOf(slices)).toEqual([A, B, C]);
  expect(fingerprintsOf(slices.toReversed())).toEqual([A, B, C]);
  const many = Array.from({ length: 200 }, (_, index) => slice(index.toString(16).padStart(64, "0")));
  expect(fingerprintsOf(many)).toHaveLength(200);
});

test("a Secret without a certificate, or with another private key, is refused", () => {
  const [one, other] = [createCertificate({ name: "a" }), createCertificate({ name: "b" })];
  const secret = (data: Record<string, string>) => ({
    metadata: { name: "metalbridge-transport" },
    data: Object.fromEntries(
      Object.entries(data).map(([name, text]) => [name, Buffer.from(text).toString("base64")]),
    ),
  });
  const { cert, key } = one;
  expect(readKeyPair(secret({ "tls.crt": cert, "tls.key": key }))).toEqual({ certificate: cert, key });
  for (const data of [{}, { "tls.crt": cert }, { "tls.crt": cert, "tls.key": "?" }])
    expect(() => readKeyPair(secret(data as Record<string, string>))).toThrow();
  expect(() => readKeyPair(secret({ "tls.crt": cert, "tls.key": other.key }))).toThrow("private key");
});
