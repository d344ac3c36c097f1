import { X509Certificate } from "node:crypto";
import { connect, createServer } from "node:tls";
import { expect, test } from "vitest";
import { createCertificate } from "./certificate.ts";

const DAY_MS = 86_400_000;

test("a client that trusts the authority accepts its server under each of the names, and under no other", async () => {
  const now = Date.now();
  const valid = { fromMs: now - DAY_MS, untilMs: now + DAY_MS };
  const authority = createCertificate({ name: "authority", isAuthority: true, valid });
  const hosts = ["127.0.0.1", "::1", "webhook.metalbridge-system.svc"];
  const issuer = { name: "authority", key: authority.key };
  const server = createCertificate({ name: "webhook", hosts, valid, issuer });
  const listener = createServer(server);
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const { port } = listener.address() as { port: number };
  const tryAs = (servername: string, ca = authority.cert) =>
    new Promise<string>((resolve) => {
      const socket = connect({ host: "127.0.0.1", port, servername, ca }, () => {
        resolve("accepted");
        socket.destroy();
      });
      socket.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    });
  expect(await tryAs("webhook.metalbridge-system.svc")).toBe("accepted");
  expect(await tryAs("other.metalbridge-system.svc")).toBe("ERR_TLS_CERT_ALTNAME_INVALID");
  const stranger = createCertificate({ name: "authority", isAuthority: true, valid });
  expect(await tryAs("webhook.metalbridge-system.svc", stranger.cert)).not.toBe("accepted");
  await new Promise((resolve) => listener.close(resolve));
  const read = new X509Certificate(server.cert);
  expect(read.checkIP("127.0.0.1")).toBe("127.0.0.1");
  expect(read.checkIP("::1")).toBe("::1");
  expect(Date.parse(read.validTo)).toBe(Math.floor(valid.untilMs / 1000) * 1000);
  expect(read.verify(new X509Certificate(authority.cert).publicKey)).toBe(true);
});

test("dates from 2050 on are written so that they are read as such", () => {
  const untilMs = Date.UTC(2061, 4, 6, 7, 8, 9);
  const { cert } = createCertificate({ name: "late", valid: { fromMs: Date.UTC(2026, 0, 1), untilMs } });
  expect(Date.parse(new X509Certificate(cert).validTo)).toBe(untilMs);
});
