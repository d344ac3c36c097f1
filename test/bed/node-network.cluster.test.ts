import { expect, test } from "vitest";
import { sharedCluster } from "../cluster/cluster.ts";
import { serveHttp } from "./http-server.ts";
import { startNodeNetwork, whyNoNodeNetwork } from "./node-network.ts";
import { until } from "./until.ts";

const why = whyNoNodeNetwork();

test.skipIf(why !== undefined)(
  `a Service's address leads to the endpoint that its slice names ${why ?? ""}`,
  async () => {
    const cluster = sharedCluster();
    await using network = await startNodeNetwork(cluster);
    await using namespace = await cluster.namespace();
    await using server = await serveHttp(
      (_request, response) => response.end("through the service"),
      network.hostAddress,
    );
    const port = Number(new URL(server.url).port);
    const address = await createService(namespace.name, network.hostAddress, port);
    await until(
      async () => {
        const { stdout } = await network.curlInside(["-m", "2", `http://${address}:8080/`]);
        expect(stdout).toBe("through the service");
      },
      { everyMs: 200 },
    );
    await cluster.objects.remove(namespace.name, "endpointslice/hand-made");
    await until(
      async () => {
        const { code } = await network.curlInside(["-m", "2", `http://${address}:8080/`]);
        expect(code).not.toBe(0);
      },
      { everyMs: 200 },
    );

    async function createService(name: string, address: string, port: number): Promise<string> {
      const service = {
        apiVersion: "v1",
        kind: "Service",
        metadata: { name: "web", namespace: name },
        spec: { ports: [{ name: "http", port: 8080 }] },
      };
      const slice = {
        apiVersion: "discovery.k8s.io/v1",
        kind: "EndpointSlice",
        metadata: { name: "hand-made", namespace: name, labels: { "kubernetes.io/service-name": "web" } },
        addressType: "IPv4",
        endpoints: [{ addresses: [address], conditions: { ready: true } }],
        ports: [{ name: "http", port, protocol: "TCP" }],
      };
      await cluster.objects.apply(service, slice);
      return (await cluster.objects.get(name, "service/web")).spec.clusterIP;
    }
  },
);
