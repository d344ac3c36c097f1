/** The relay's watches in the real API server: the Secret, and slices that lead a Service to it. */
import { expect, test, vi } from "vitest";
import { connect } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { ENDPOINT_SLICES, SECRETS } from "../../src/kube/kinds.ts";
import { envoyPath, whyNoEnvoy } from "../../test/bed/envoy.ts";
import { must } from "../../test/bed/must.ts";
import { freePort } from "../../test/bed/ports.ts";
import { sharedCluster } from "../../test/cluster/cluster.ts";
import { keepLines } from "../../test/fixtures/log-lines.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { createIdentity } from "../envoy/run/fixtures/tls-gate.ts";
import { parseRelayConfig } from "./config.ts";
import { runRelay } from "./main.ts";

const within = { timeout: 30_000, interval: 20 };
const base64 = (text: string) => Buffer.from(text).toString("base64");

test.skipIf(whyNoEnvoy !== undefined)(
  "a relay is ready with the Secret and all slices, and answers at the port of a service that has no replica",
  async () => {
    const cluster = sharedCluster();
    await using namespace = await cluster.namespace();
    await using folder = await temporaryFolder();
    const connection = await connect({ kubeconfigPath: cluster.kubeconfig });
    const [ending, healthPort, port] = [
      new AbortController(),
      await freePort(),
      20_000 + (process.pid % 9_000),
    ];
    const config = parseRelayConfig({
      ...{ kubeconfig: cluster.kubeconfig, dir: folder.path, envoy: envoyPath, healthPort },
      namespace: namespace.name,
    });
    const hurry = AbortSignal.abort();
    const running = runRelay({ config, log: keepLines([]), signal: ending.signal, hurry });
    const read = async (path: string) => (await fetch(`http://127.0.0.1:${healthPort}${path}`)).text();
    try {
      const client = createClient(connection);
      const metadata = {
        namespace: namespace.name,
        name: "chat-relay",
        labels: {
          "metalbridge.dev/relayed-service": "chat",
          "endpointslice.kubernetes.io/managed-by": "controller.metalbridge.dev",
        },
      };
      const ports = [{ name: "http", port }];
      must(await client.create(ENDPOINT_SLICES, { metadata, addressType: "IPv4", endpoints: [], ports }));
      await vi.waitFor(async () => expect(await read("/readyz")).toContain("metalbridge-transport"), within);
      const { keyPair } = createIdentity("relay");
      const data = { "tls.crt": base64(keyPair.certificate), "tls.key": base64(keyPair.key) };
      const secret = { namespace: namespace.name, name: "metalbridge-transport" };
      must(await client.create(SECRETS, { metadata: secret, type: "kubernetes.io/tls", data }));
      await vi.waitFor(async () => expect(await read("/readyz")).toBe("ok\n"), within);
      const response = await fetch(`http://127.0.0.1:${port}/v1/models`);
      expect(response.status).toBe(503);
      expect(await response.text()).toContain(`${namespace.name}/chat`);
      expect(await read("/metrics")).toContain("metalbridge_relay_services 1");
    } finally {
      ending.abort();
      await running;
      connection.close();
    }
  },
);
