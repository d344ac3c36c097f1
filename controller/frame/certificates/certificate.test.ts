import { X509Certificate } from "node:crypto";
import { expect, test } from "vitest";
import { createCertificate } from "../../../src/crypto/certificate.ts";
import { type Certificates, planCertificates } from "./certificate.ts";

const DAY_MS = 86_400_000;
const NOW = Date.UTC(2026, 10, 23);
const NAMES = ["metalbridge-preflight.metalbridge-system.svc", "127.0.0.1"];
const LIFETIME_MS = 90 * DAY_MS;
const plan = (found: Partial<Certificates>, nowMs = NOW, names = NAMES) =>
  planCertificates(found, names, LIFETIME_MS, nowMs);
const count = (bundle: string) => bundle.split("BEGIN CERTIFICATE").length - 1;
const isTrusted = (files: Certificates) => {
  const leaf = new X509Certificate(files["tls.crt"]);
  return (files["ca.crt"].match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? []).some((pem) =>
    leaf.verify(new X509Certificate(pem).publicKey),
  );
};

test("an empty Secret gets an authority and a certificate; while both are good they stay", () => {
  const first = plan({});
  expect(first.because).toBe("a new authority and a certificate until 2027-02-21");
  expect(isTrusted(first.certificates)).toBe(true);
  expect(first.dueMs).toBe(NOW + 60 * DAY_MS);
  const again = plan(first.certificates, NOW + 59 * DAY_MS);
  expect(again.because).toBeUndefined();
  expect(again.certificates).toEqual(first.certificates);
  expect(again.dueMs).toBe(first.dueMs);
});

test("a certificate is renewed when a third of its time is left, by the same authority", () => {
  const first = plan({}).certificates;
  const second = plan(first, NOW + 61 * DAY_MS);
  expect(second.because).toBe("a certificate until 2027-04-23");
  expect(second.certificates["ca.crt"]).toBe(first["ca.crt"]);
  expect(second.certificates["tls.crt"]).not.toBe(first["tls.crt"]);
});

test("a certificate for other names is replaced", () => {
  expect(plan(plan({}).certificates, NOW, [...NAMES, "other.example"]).because).toMatch(/^a certificate/);
});

test("a new authority is trusted before a certificate of it is served, and the old one for as long as it is valid", () => {
  let files = plan({}).certificates;
  let now = NOW;
  const seen: string[] = [];
  while (now < NOW + 3_700 * DAY_MS) {
    const next = plan(files, now);
    if (next.because?.includes("authority")) {
      seen.push(next.because);
      expect(count(next.certificates["ca.crt"])).toBe(2);
      expect(next.certificates["tls.crt"]).toBe(files["tls.crt"]);
    }
    expect(isTrusted(next.certificates)).toBe(true);
    files = next.certificates;
    now += 10 * DAY_MS;
  }
  expect(seen).toEqual(["a new authority"]);
  expect(count(files["ca.crt"])).toBe(1);
});

test.each([
  ["a key of another certificate", { "tls.key": createCertificate({ name: "other" }).key }],
  ["a certificate that is none", { "tls.crt": "hello" }],
  ["no authority", { "ca.crt": "" }],
  ["a key of another authority", { "ca.key": createCertificate({ name: "other" }).key }],
])("a Secret with %s is written from scratch", (_, change) => {
  const { because } = plan({ ...plan({}).certificates, ...change });
  expect(because).toMatch(/^a new authority and a certificate/);
});
