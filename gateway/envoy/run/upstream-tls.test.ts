/** HTTPS to endpoints that require a certificate of the gateway, through the real Envoy. */
import { once } from "node:events";
import { mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:https";
import path from "node:path";
import type { TLSSocket } from "node:tls";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeUnless } from "../../../test/bed/describe-unless.ts";
import { whyNoEnvoy } from "../../../test/bed/envoy.ts";
import { freePort } from "../../../test/bed/ports.ts";
import { until } from "../../../test/bed/until.ts";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import {
  createTestAuthority,
  type TestAuthority,
  whyNoAuthority,
} from "../../../test/fixtures/test-authority.ts";
import type { EnvoyTls, EnvoyUpstreamTls } from "../types.ts";
import { type EnvoyBed, grant, startEnvoyBed } from "./fixtures/envoy-bed.ts";

const QUICK = { everyMs: 5, timeoutMs: 20_000 } as const;
const NAME = "a.default.svc";

describeUnless(whyNoEnvoy ?? whyNoAuthority(), "HTTPS to endpoints", () => {
  let authority: TestAuthority;
  let stranger: TestAuthority;
  beforeAll(() => {
    authority = createTestAuthority();
    stranger = createTestAuthority();
  });
  afterAll(() => {
    authority.remove();
    stranger.remove();
  });

  it("presents the certificate of the gateway, and a renewed one without losing a request", async () => {
    await using folder = await temporaryFolder();
    await using engine = await startTlsEngine(authority, NAME);
    const client = install(authority, folder.path, "first");
    await using bed = await startBed(engine.port, { caFile: authority.certificateFile, client });
    expect(engine.clients.at(-1)).toBe("first");
    install(authority, folder.path, "second");
    await until(async () => {
      await bed.chat();
      expect(engine.clients.at(-1)).toBe("second");
    }, QUICK);
  });

  it("sends nothing to an endpoint that it cannot verify, or without the certificate that the endpoint requires", async () => {
    await using folder = await temporaryFolder();
    await using engine = await startTlsEngine(authority, NAME);
    await using other = await startTlsEngine(authority, "other.default.svc");
    const client = install(authority, folder.path, "gateway");
    const caFile = authority.certificateFile;
    for (const [port, upstreamTls, reason] of [
      [engine.port, { caFile: stranger.certificateFile, client }, /TLS_error.*CERTIFICATE_VERIFY_FAILED/],
      [other.port, { caFile, client }, /TLS_error.*CERTIFICATE_VERIFY_FAILED/],
      // TLS 1.3: the endpoint refuses the client after the handshake of the client is complete.
      [engine.port, { caFile }, /connection_termination|TLS_error/],
    ] as const) {
      await using bed = await startBed(port, upstreamTls, 503);
      bed.decisions.respond = () => grant("default/a", { "x-metalbridge-ticket": "last" });
      const { status, text } = await bed.call("/v1/chat/completions", { body: {} });
      expect({ status, code: JSON.parse(text).error.code }).toEqual({
        status: 503,
        code: "service_unavailable",
      });
      const { details } = await bed.finished("last");
      expect(details).toMatch(reason);
    }
    expect([...engine.clients, ...other.clients]).toEqual([]);
  });
});

/** Once Envoy answers with this status. */
async function startBed(port: number, upstreamTls: EnvoyUpstreamTls, wanted = 200): Promise<EnvoyBed> {
  const bed = await startEnvoyBed({ upstreamTls });
  const endpoints = [{ address: "127.0.0.1", port, isHealthy: true }];
  await bed.envoy.apply([{ name: "default/a", endpoints, slowStartMs: 0, tlsName: NAME }]);
  await until(async () => {
    const { status, text } = await bed.call("/v1/chat/completions", { body: {} });
    if (status !== wanted || text.includes("model_not_ready")) throw new Error(`${status} ${text}`);
  }, QUICK);
  return bed;
}

/** Replaces both files by one rename of a link, as the kubelet does. */
function install(authority: TestAuthority, dir: string, name: string): EnvoyTls {
  const { certificate, key } = authority.issue(name, { organization: "gateway" });
  const files = { certificateFile: path.join(dir, "tls.crt"), keyFile: path.join(dir, "tls.key") };
  mkdirSync(path.join(dir, name));
  writeFileSync(path.join(dir, name, "tls.crt"), certificate);
  writeFileSync(path.join(dir, name, "tls.key"), key);
  link(name, path.join(dir, "..data"));
  for (const file of Object.values(files)) link(`..data/${path.basename(file)}`, file);
  return files;
}

interface TlsEngine extends AsyncDisposable {
  readonly port: number;
  /** Common names of the clients whose requests arrived. */
  readonly clients: string[];
}

async function startTlsEngine(authority: TestAuthority, dnsName: string): Promise<TlsEngine> {
  const { certificate: cert, key } = authority.issue(dnsName, { organization: "gate", dnsName });
  const ca = readFileSync(authority.certificateFile);
  const clients: string[] = [];
  const server = createServer(
    { cert, key, ca, requestCert: true, rejectUnauthorized: true },
    (request, response) => {
      clients.push(String((request.socket as TLSSocket).getPeerCertificate().subject.CN));
      response.end("{}");
    },
  );
  const port = await freePort();
  await once(server.listen(port, "127.0.0.1"), "listening");
  return { port, clients, [Symbol.asyncDispose]: () => close(server) };
}

function link(target: string, file: string): void {
  symlinkSync(target, `${file}_tmp`);
  renameSync(`${file}_tmp`, file);
}

async function close(server: Server): Promise<void> {
  const closed = once(server, "close");
  server.close();
  server.closeAllConnections();
  await closed;
}
