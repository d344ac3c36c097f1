/** Sealed endpoints through the real Envoy: certificates that both sides recognize by their fingerprints. */
import { once } from "node:events";
import { createServer } from "node:tls";
import { expect, it } from "vitest";
import { describeUnless } from "../../../test/bed/describe-unless.ts";
import { whyNoEnvoy } from "../../../test/bed/envoy.ts";
import { freePort } from "../../../test/bed/ports.ts";
import { until } from "../../../test/bed/until.ts";
import type { EnvoyEndpoint } from "../types.ts";
import { type EnvoyBed, grant, startEngine, startEnvoyBed } from "./fixtures/envoy-bed.ts";
import { createIdentity, type Identity, startTlsGate } from "./fixtures/tls-gate.ts";

const QUICK = { everyMs: 5, timeoutMs: 20_000 } as const;
const gateway = createIdentity("gateway");
const host = createIdentity("host");

describeUnless(whyNoEnvoy, "sealed endpoints", () => {
  it("are reached by TLS, and plain endpoints of the same service without it", async () => {
    await using gate = await startTlsGate(host, [gateway.fingerprint]);
    await using engine = await startEngine();
    await using bed = await startEnvoyBed({ keyPair: gateway.keyPair });
    const decoys = Array.from({ length: 200 }, (_, index) => index.toString(16).padStart(64, "0"));
    await apply(bed, [gate.endpoint(host.fingerprint), engine], decoys);
    await until(() => chatAt(bed, gate.port), QUICK);
    await until(() => chatAt(bed, engine.port), QUICK);
    expect(new Set(gate.received)).toEqual(new Set([gateway.fingerprint]));
    expect(engine.received.length).toBeGreaterThan(0);
  });

  it("get no byte of a request if they present another certificate, or refuse that of the gateway", async () => {
    await using impostor = await startImpostor(createIdentity("impostor"));
    await using strict = await startTlsGate(host, []);
    for (const [port, reason] of [
      [impostor.port, /TLS_error.*CERTIFICATE_VERIFY_FAILED/],
      // TLS 1.3: the host refuses the client after the handshake of the client is complete.
      [strict.port, /connection_termination|TLS_error/],
    ] as const) {
      await using bed = await startEnvoyBed({ keyPair: gateway.keyPair });
      await apply(bed, [{ address: "127.0.0.1", port, isHealthy: true, fingerprints: [host.fingerprint] }]);
      await until(async () => {
        const { status, text } = await bed.call("/v1/chat/completions", { body: { messages: [] } });
        expect({ status, code: JSON.parse(text).error.code }).toEqual({
          status: 503,
          code: "service_unavailable",
        });
      }, QUICK);
      bed.decisions.respond = () => grant("default/a", { "x-metalbridge-ticket": "last" });
      await bed.call("/v1/chat/completions", { body: {} });
      expect((await bed.finished("last")).details).toMatch(reason);
    }
    expect(impostor.handshakes()).toBeGreaterThan(0);
    expect(impostor.bytes()).toBe(0);
    expect(strict.refused()).toBeGreaterThan(0);
    expect(strict.received).toEqual([]);
  });

  it("replace plain ones, and certificates of both sides rotate, without a failed request", async () => {
    const [nextGateway, nextHost, secondHost] = [1, 2, 3].map((n) => createIdentity(`next-${n}`)) as [
      Identity,
      Identity,
      Identity,
    ];
    await using gate = await startTlsGate(host, [gateway.fingerprint]);
    await using second = await startTlsGate(secondHost, [gateway.fingerprint, nextGateway.fingerprint]);
    await using engine = await startEngine();
    await using bed = await startEnvoyBed({ keyPair: gateway.keyPair });
    await apply(bed, [engine]);
    await until(() => bed.chat(), QUICK);
    const load = startLoad(bed);
    const until20 = (list: readonly unknown[]) => {
      const enough = list.length + 20;
      return until(() => expect(list.length).toBeGreaterThan(enough), QUICK);
    };

    await apply(bed, [engine, gate.endpoint(host.fingerprint)]);
    await until20(gate.received);
    await apply(bed, [gate.endpoint(host.fingerprint)]);
    await until20(gate.received);

    // The gateway's certificate: both are accepted for a while. A change of the cluster then renews kept connections.
    gate.clients.add(nextGateway.fingerprint);
    await bed.envoy.present(nextGateway.keyPair);
    await apply(bed, [gate.endpoint(host.fingerprint), second.endpoint(secondHost.fingerprint)]);
    await until20(second.received);
    await until(() => {
      const recent = gate.received.slice(-20);
      expect(new Set(recent)).toEqual(new Set([nextGateway.fingerprint]));
    }, QUICK);
    gate.clients.delete(gateway.fingerprint);

    // The host's certificate: published before it is used.
    await apply(bed, [gate.endpoint(host.fingerprint, nextHost.fingerprint)]);
    await until20(gate.received);
    gate.present(nextHost);
    await apply(bed, [gate.endpoint(nextHost.fingerprint)]);
    await until20(gate.received);
    expect(await load.stop()).toEqual([]);
    expect(gate.refused()).toBe(0);
  });
});

function apply(
  bed: EnvoyBed,
  endpoints: readonly EnvoyEndpoint[],
  decoys: readonly string[] = [],
): Promise<void> {
  const fingerprints = [...endpoints.flatMap((one) => one.fingerprints ?? []), ...decoys].toSorted();
  const keepsConnections = endpoints.every((one) => one.fingerprints !== undefined);
  return bed.envoy.apply([{ name: "default/a", endpoints, fingerprints, keepsConnections, slowStartMs: 0 }]);
}

async function chatAt(bed: EnvoyBed, port: number): Promise<void> {
  bed.decisions.respond = () =>
    grant("default/a", {
      "x-gateway-destination-endpoint": `127.0.0.1:${port}`,
      "x-metalbridge-ticket": `${port}`,
    });
  await bed.chat();
}

function startLoad(bed: EnvoyBed): { readonly stop: () => Promise<readonly unknown[]> } {
  let isStopped = false;
  const failures: unknown[] = [];
  const client = async (): Promise<void> => {
    while (!isStopped) await bed.chat().catch((error: unknown) => failures.push(error));
  };
  const clients = Promise.all([client(), client(), client(), client()]);
  return {
    stop: async () => {
      isStopped = true;
      await clients;
      return failures;
    },
  };
}

async function startImpostor({ keyPair }: Identity) {
  let handshakes = 0;
  let bytes = 0;
  const server = createServer(
    { cert: keyPair.certificate, key: keyPair.key, minVersion: "TLSv1.3" },
    (socket) => {
      socket.on("data", (data: Buffer) => {
        bytes += data.length;
      });
      socket.on("error", () => {});
    },
  );
  server.on("connection", (socket) => {
    handshakes += 1;
    socket.on("error", () => {});
  });
  const port = await freePort();
  await once(server.listen(port, "127.0.0.1"), "listening");
  return {
    port,
    handshakes: () => handshakes,
    bytes: () => bytes,
    [Symbol.asyncDispose]: async () => {
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
