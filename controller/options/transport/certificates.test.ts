import { expect, test } from "vitest";
import { createCertificate } from "../../../src/crypto/certificate.ts";
import { clientFingerprints, planClientCertificates } from "./certificates.ts";

const DAY_MS = 86_400_000;
const NOW = Date.UTC(2026, 10, 30);
const first = planClientCertificates({}, NOW);

test("an empty Secret gets a certificate, which stays for a month", () => {
  expect(first.because).toBe("a new certificate");
  expect(clientFingerprints({ ...first.certificates })).toHaveLength(1);
  const later = planClientCertificates({ ...first.certificates }, NOW + 29 * DAY_MS);
  expect(later).toEqual({ certificates: first.certificates, dueMs: NOW + 30 * DAY_MS });
});

test("a rotation never uses a certificate that hosts do not accept yet, and ends", () => {
  let files = { ...first.certificates };
  let accepted = clientFingerprints(files);
  const changes: string[] = [];
  for (let at = NOW; at < NOW + 70 * DAY_MS; at += DAY_MS / 4) {
    const { certificates, because } = planClientCertificates(files, at);
    files = { ...certificates };
    const inUse = clientFingerprints({ "tls.crt": files["tls.crt"] })[0];
    // Hosts may be as late as one step.
    expect(accepted).toContain(inUse);
    accepted = clientFingerprints(files);
    expect(accepted.length).toBeLessThanOrEqual(2);
    if (because !== undefined) changes.push(`${(at - NOW) / DAY_MS} ${because}`);
  }
  expect(changes).toEqual([
    "30 a successor",
    "31 the next certificate is in use",
    "32 the previous certificate has expired",
    "60 a successor",
    "61 the next certificate is in use",
    "62 the previous certificate has expired",
  ]);
});

const ahead = createCertificate({
  name: "x",
  valid: { fromMs: NOW + 400 * DAY_MS, untilMs: NOW + 900 * DAY_MS },
});

test.each<[string, Record<string, string>, string | undefined]>([
  ["a key of another certificate", { "tls.key": createCertificate({ name: "x" }).key }, "a new certificate"],
  ["a certificate that is none", { "tls.crt": "hello" }, "a new certificate"],
  ["a successor that is none", { "next.crt": "hello", "next.key": "hello" }, undefined],
  [
    "a certificate from a clock that was ahead",
    { "tls.crt": ahead.cert, "tls.key": ahead.key },
    "a successor",
  ],
  ["a successor from a clock that was ahead", { "next.crt": ahead.cert, "next.key": ahead.key }, undefined],
])("a Secret with %s", (_, change, because) => {
  expect(planClientCertificates({ ...first.certificates, ...change }, NOW).because).toBe(because);
});
