import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createCertificate } from "../../../src/crypto/certificate.ts";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { whyNoAuthority } from "../../../test/fixtures/test-authority.ts";
import { certificateProblem, clientCAProblem } from "./gate-files.ts";

const LIMIT = 64 * 1024;

test("a chain of up to 10 certificates and 64 KiB is served, and a longer one is refused with the limit", () => {
  const { cert, key } = createCertificate({ name: "chat" });
  const lengths = fc.oneof(fc.nat(LIMIT), fc.integer({ min: LIMIT + 1, max: 4 * LIMIT }));
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 20 }), lengths, fc.boolean(), (certificates, length, isKey) => {
      const chain = cert.trim().concat("\n").repeat(certificates);
      // Text beside the blocks of a PEM file is a comment.
      const why = isKey
        ? certificateProblem(chain, key.padEnd(length, "\n"), Date.now())
        : certificateProblem(chain.padEnd(length, "\n"), key, Date.now());
      if (length > LIMIT) expect(why).toContain("64 KiB, the maximum");
      else if (certificates > 10)
        expect(why).toBe(`tls.crt has ${certificates} certificates; the maximum is 10`);
      else expect(why).toBeUndefined();
    }),
    { numRuns: 60 },
  );
});

test("a CA of clients that cannot verify a client is refused", () => {
  const { cert } = createCertificate({ name: "ca" });
  const now = Date.now();
  expect(clientCAProblem(cert.repeat(2), now)).toBeUndefined();
  expect(clientCAProblem("text", now)).toBe("ca.crt has no certificate");
  expect(clientCAProblem(cert.repeat(11), now)).toBe("ca.crt has 11 certificates; the maximum is 10");
  expect(clientCAProblem(cert.padEnd(LIMIT + 1, "\n"), now)).toContain("64 KiB, the maximum");
  expect(clientCAProblem(cert.replace(/M/g, "A"), now)).toMatch(/^ca\.crt cannot be read/);
  expect(clientCAProblem(cert, Number.MAX_SAFE_INTEGER)).toContain("have expired");
});

test.skipIf(whyNoAuthority() !== undefined)("RSA keys of more than 4,096 bits are refused", async () => {
  await using folder = await temporaryFolder();
  const [keyFile, certFile] = [path.join(folder.path, "tls.key"), path.join(folder.path, "tls.crt")];
  for (const [bits, expected] of [
    [4_096, undefined],
    [4_104, "the key has 4104 bits; the maximum for RSA is 4096"],
  ] as const) {
    const args = ["req", "-x509", "-newkey", `rsa:${bits}`, "-nodes", "-subj", "/CN=chat"];
    execFileSync("openssl", [...args, "-keyout", keyFile, "-out", certFile], { stdio: "pipe" });
    const [chain, key] = [readFileSync(certFile, "utf8"), readFileSync(keyFile, "utf8")];
    expect(certificateProblem(chain, key, Date.now() + 1_000)).toBe(expected);
  }
});
