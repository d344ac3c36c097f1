/** Sealed services: what the controller publishes to hosts, gateways, relays and kube-proxy. */
import { X509Certificate } from "node:crypto";
import { expect, test } from "vitest";
import { getCondition } from "../src/api/conditions.ts";
import type { EndpointSlice, Secret } from "../src/kube/objects.ts";
import { fingerprintOfCertificate } from "../src/kube/remote/fingerprint.ts";
import { inferenceService } from "../test/controller/bench.ts";
import { oneOnce } from "../test/controller/once.ts";

const bench = oneOnce({ flags: { relayService: "metalbridge-relay" } });
const HOST_FINGERPRINT = "a".repeat(64);

function relays(...addresses: readonly string[]): object {
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: {
      name: "metalbridge-relay-x",
      namespace: "metalbridge-system",
      labels: { "kubernetes.io/service-name": "metalbridge-relay" },
    },
    addressType: "IPv4",
    endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true } })),
    ports: [{ name: "health", port: 9470 }],
  };
}

const slices = async (ns: string): Promise<readonly EndpointSlice[]> =>
  (await bench().objects.get(ns, "endpointslices")).items;

test("a sealed service is led to the relays, its replicas know their clients, and kube-proxy knows no replica", async () => {
  const ns = await bench().namespace("sealed");
  await bench().apply(relays("10.1.0.1", "10.1.0.2"));
  await bench().agents({ "mac-1": {} });
  await bench().objects.patch(
    "",
    "host/mac-1",
    { status: { transport: { fingerprints: [HOST_FINGERPRINT] } } },
    "status",
  );
  await bench().apply(inferenceService(ns, "chat", { endpoint: { transport: "Sealed" } }));

  const secret: Secret = await bench().objects.get("metalbridge-system", "secret/metalbridge-transport");
  const certificate = new X509Certificate(Buffer.from(secret.data?.["tls.crt"] ?? "", "base64"));
  const [replica] = await bench().replicas(ns);
  expect(replica?.spec.template.transport).toBe("Sealed");
  expect(replica?.spec.clientFingerprints).toEqual([fingerprintOfCertificate(certificate)]);

  const found = await slices(ns);
  const ofReplica = found.find(({ metadata }) => metadata.name === replica?.metadata.name);
  expect(ofReplica?.metadata.labels).not.toHaveProperty("kubernetes.io/service-name");
  expect(ofReplica?.metadata.annotations).toMatchObject({ "metalbridge.dev/fingerprints": HOST_FINGERPRINT });
  const served = found.filter(({ metadata }) => metadata.labels?.["kubernetes.io/service-name"] === "chat");
  expect(served).toMatchObject([
    {
      metadata: { name: "chat-relay" },
      endpoints: [{ addresses: ["10.1.0.1"] }, { addresses: ["10.1.0.2"] }],
      ports: [{ name: "http", port: expect.any(Number) }],
    },
  ]);
  expect(getCondition((await bench().service(ns, "chat")).status?.conditions, "Encrypted")).toMatchObject({
    status: "True",
    reason: "TransportSealed",
  });

  // A relay is replaced: the port stays.
  await bench().apply(relays("10.1.0.2", "10.1.0.3"));
  const [after] = (await slices(ns)).filter(({ metadata }) => metadata.name === "chat-relay");
  expect(after?.endpoints?.flatMap(({ addresses }) => addresses)).toEqual(["10.1.0.2", "10.1.0.3"]);
  expect(after?.ports).toEqual(served[0]?.ports);

  // Back to direct: the relays leave once no sealed replica is left.
  await bench().patch(ns, "isvc/chat", { spec: { endpoint: { transport: "Direct" } } });
  const direct = await slices(ns);
  expect(direct.map(({ metadata }) => metadata.labels?.["kubernetes.io/service-name"])).toEqual(["chat"]);
  expect(direct[0]?.metadata.annotations).not.toHaveProperty("metalbridge.dev/fingerprints");
});

test("a service that is deleted leaves no slice", async () => {
  const ns = await bench().namespace("sealed-gone");
  await bench().apply(relays("10.1.0.1"));
  await bench().agents({ "mac-1": {} });
  await bench().apply(inferenceService(ns, "chat", { endpoint: { transport: "Sealed" } }));
  expect((await slices(ns)).map(({ metadata }) => metadata.name)).toContain("chat-relay");
  await bench().remove(ns, "isvc/chat");
  expect(await slices(ns)).toEqual([]);
});
