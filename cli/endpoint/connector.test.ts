import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import type { AddressInfo, Socket } from "node:net";
import { createServer } from "node:tls";
import { afterEach, expect, test, vi } from "vitest";
import { createCertificate } from "../../src/crypto/certificate.ts";
import { fingerprintOfCertificate } from "../../src/kube/remote/fingerprint.ts";
import { createConnector } from "./connector.ts";

afterEach(() => void vi.restoreAllMocks());

const base64 = (text: string) => Buffer.from(text).toString("base64");
const client = createCertificate({ name: "client" });
const secret = { data: { "tls.crt": base64(client.cert), "tls.key": base64(client.key) } };
const refused = { kind: "forbidden", message: "not yours" };

test("the certificate is read again after each failure, and a problem is printed once", async () => {
  const printed: unknown[] = [];
  vi.spyOn(process.stderr, "write").mockImplementation((line) => printed.push(line) > 0);
  const { cert, key } = createCertificate({ name: "mac-1" });
  const server = createServer({ cert, key, requestCert: true, rejectUnauthorized: false });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  let answer: object = { ok: false, error: refused };
  const get = vi.fn(async () => answer);
  const connectTo = createConnector({ client: { get } } as never);
  const connected = async (fingerprint: string) => {
    const endpoint = { address: "127.0.0.1", port, fingerprints: [fingerprint] };
    const engine = await new Promise<Socket | undefined>((resolve) => connectTo(endpoint, resolve));
    engine?.destroy();
    return engine !== undefined;
  };
  const own = fingerprintOfCertificate(new X509Certificate(cert));
  expect([await connected(own), await connected(own)]).toEqual([false, false]);
  expect(printed).toEqual([expect.stringContaining("not yours")]);
  answer = { ok: true, value: secret };
  expect([await connected(own), await connected(own)]).toEqual([true, true]);
  expect(get).toHaveBeenCalledTimes(3);
  expect([await connected("another"), await connected("another")]).toEqual([false, false]);
  expect(printed.slice(1)).toEqual([expect.stringContaining(`127.0.0.1 port ${port}: another certificate`)]);
  expect([get.mock.calls.length, await connected(own), get.mock.calls.length]).toEqual([4, true, 5]);
  server.close();
});
